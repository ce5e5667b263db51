// Services of Restate, for tests of the http adapter (serve.py). Each start with the argument `key` leaves a line in
// starts/KEY.

import fs from "node:fs";
import http2 from "node:http2";
import * as restate from "@restatedev/restate-sdk";

const { PORT, STARTS } = process.env;

// A step is not repeated when Restate goes on with an invocation.
const record = (ctx, { key } = {}) => ctx.run("record", () => {
    if (key) fs.appendFileSync(`${STARTS}/${key}`, "started\n");
});

const jsonSchema = {
    type: "object",
    properties: { who: { type: "string", maxLength: 40 }, key: { type: "string" } },
    required: ["who"],
};
const typedInput = Object.create(restate.serde.json, { jsonSchema: { value: jsonSchema } });
const greetings = restate.service({
    name: "Greetings",
    description: "Says hello.",
    handlers: {
        greet: restate.handlers.handler(
            { description: "Greets someone.", input: typedInput },
            async (ctx, args) => {
                await record(ctx, args);
                return { said: `hello ${args.who}` };
            },
        ),
        nothing: async (ctx, args) => {
            await record(ctx, args);
        },
        fail: async (ctx, args) => {
            await record(ctx, args);
            throw new restate.TerminalError("out of luck\nand out of paper", { errorCode: 503 });
        },
        // It fails before Restate can tell it that it is cancelled.
        retry: async (ctx, args) => {
            await record(ctx, args);
            throw new Error("not yet\nor never");
        },
        wait: async (ctx, args) => {
            await record(ctx, args);
            await ctx.sleep({ minutes: 20 });
        },
        hidden: restate.handlers.handler({ ingressPrivate: true }, async () => "internal"),
    },
});

// One invocation of an object runs at a time.
const account = restate.object({
    name: "Account",
    handlers: {
        deposit: async (ctx, args) => {
            await record(ctx, args);
            const balance = ((await ctx.get("balance")) ?? 0) + args.amount;
            ctx.set("balance", balance);
            return { account: ctx.key, balance };
        },
        hold: async (ctx, args) => {
            await record(ctx, args);
            await ctx.sleep({ minutes: 20 });
        },
    },
});

const order = restate.workflow({
    name: "Order",
    handlers: {
        run: async (ctx, args) => {
            await record(ctx, { key: ctx.key });
            return { ordered: args.what, as: ctx.key };
        },
        status: async () => "open",
    },
});

const endpoint = restate.createEndpointHandler({ services: [greetings, account, order] });
http2.createServer(endpoint).listen(Number(PORT), "127.0.0.1");
