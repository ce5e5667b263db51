// GitHub's own OpenAPI description, cut to the operations that are served here, and Prism's validators over it. It must
// not know what an operation does.

import fs from "node:fs";
import path from "node:path";

/** The description with these operations, these schemas and what they refer to, and nothing else. */
function cut(whole, wanted, named) {
    const paths = {};
    for (const [template, methods] of Object.entries(whole.paths)) {
        for (const [method, operation] of Object.entries(methods)) {
            if (wanted.includes(operation.operationId)) (paths[template] ??= {})[method] = operation;
        }
    }
    const components = {};
    const seen = new Set();
    const follow = (value) => {
        if (value === null || typeof value !== "object") return;
        if (typeof value.$ref === "string" && !seen.has(value.$ref)) {
            seen.add(value.$ref);
            const [, , kind, name] = value.$ref.split("/");
            (components[kind] ??= {})[name] = whole.components[kind][name];
            follow(components[kind][name]);
        }
        for (const [name, member] of Object.entries(value)) {
            // GitHub's own examples breach the description in places, and nobody here reads them.
            if (name === "examples" || name === "example") delete value[name];
            else follow(member);
        }
    };
    follow(paths);
    for (const name of named) follow({ $ref: `#/components/schemas/${name}` });
    return { openapi: whole.openapi, info: whole.info, servers: whole.servers, paths, components };
}

/** What Prism says is wrong, in words. */
const told = (result) =>
    result._tag === "Left"
        ? result.left.filter(({ severity }) => severity === 0).map(({ path: at, message }) => `${(at ?? []).join(".")}: ${message}`)
        : [];

export class Contract {
    static async load(need, installed, wanted, named) {
        const file = path.join(installed, "node_modules/@octokit/openapi/generated/api.github.com.json");
        const description = cut(JSON.parse(fs.readFileSync(file, "utf8")), wanted, named);
        const { getHttpOperationsFromSpec } = need("@stoplight/prism-http");
        const { validateInput, validateOutput } = need("@stoplight/prism-http/dist/validator");
        // The list is made before references are resolved, which happens in place.
        const schemas = structuredClone(description.components.schemas);
        const operations = (await getHttpOperationsFromSpec(description)).map((operation) => ({
            id: operation.iid,
            method: operation.method.toUpperCase(),
            template: operation.path,
            // A path within a repository, and that alone, may have slashes.
            pattern: new RegExp(`^${operation.path.replace(/{(\w+)}/g, (_, name) => `(?<${name}>${name === "path" ? ".+" : "[^/]+"})`)}$`),
            resource: operation,
        }));
        const missing = wanted.filter((id) => !operations.some((operation) => operation.id === id));
        if (missing.length) throw new Error(`GitHub's description has no ${missing.join(", ")}`);
        return new Contract(operations, schemas, validateInput, validateOutput);
    }

    constructor(operations, schemas, validateInput, validateOutput) {
        Object.assign(this, { operations, schemas, validateInput, validateOutput });
    }

    /** The operation of a request, and the parameters in its path. */
    find(method, pathname) {
        for (const operation of this.operations) {
            const match = operation.method === method && operation.pattern.exec(pathname);
            if (match) {
                const decoded = Object.entries(match.groups ?? {}).map(([name, value]) => [name, decodeURIComponent(value)]);
                return { operation, parameters: Object.fromEntries(decoded) };
            }
        }
        return null;
    }

    /** What is wrong with a request. */
    request(operation, { pathname, query, headers, body }) {
        // What is one segment in truth is one for Prism as well.
        const flat = operation.template.includes("{path}") ? operation.template.replace(/{\w+}/g, "x") : pathname;
        const element = { method: operation.method.toLowerCase(), url: { path: flat, query }, headers, body };
        const found = told(this.validateInput({ resource: operation.resource, element }));
        const known = new Set((operation.resource.request?.query ?? []).map(({ name }) => name));
        for (const name of Object.keys(query)) if (!known.has(name)) found.push(`query.${name}: GitHub has no such parameter`);
        return found;
    }

    /** What is wrong with an answer. */
    answer(operation, { status, headers, body }) {
        // An error that any operation can give is not always written down at each.
        if (status >= 400 || status === 304) return [];
        return told(this.validateOutput({ resource: operation.resource, element: { statusCode: status, headers, body } }));
    }

    /** An object of this schema: the facts, and for everything else that it must have something that fits. */
    shaped(name, facts) {
        return this.#filled({ $ref: `#/components/schemas/${name}` }, facts);
    }

    #filled(schema, given) {
        while (schema.$ref) schema = this.schemas[schema.$ref.split("/").pop()];
        if (schema.allOf) schema = this.#merged(schema);
        if (given !== undefined && (given === null || typeof given !== "object" || Array.isArray(given))) return given;
        if (given === undefined && schema.nullable) return null;
        const choice = (schema.anyOf ?? schema.oneOf)?.[0];
        if (choice) return this.#filled(choice, given);
        if (given === undefined && schema.enum) return schema.enum[0];
        switch (schema.type) {
            case "string":
                if (schema.format === "date-time") return "2026-01-01T00:00:00Z";
                return schema.format === "uri" ? "http://127.0.0.1/" : "";
            case "integer":
            case "number":
                return 0;
            case "boolean":
                return false;
            case "array":
                return [];
        }
        const object = { ...given };
        for (const member of schema.required ?? []) {
            object[member] = this.#filled(schema.properties?.[member] ?? {}, object[member]);
        }
        for (const [member, value] of Object.entries(object)) {
            if (value && schema.properties?.[member]) object[member] = this.#filled(schema.properties[member], value);
        }
        return object;
    }

    #merged(schema) {
        const parts = schema.allOf.map((part) => (part.$ref ? this.schemas[part.$ref.split("/").pop()] : part));
        const properties = Object.assign({}, ...parts.map((part) => part.properties));
        return { ...schema, allOf: undefined, type: "object", properties, required: parts.flatMap((part) => part.required ?? []) };
    }
}
