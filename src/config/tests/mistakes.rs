//! Errors in backends and tools, with their exact messages. It must not read the server's own tables.

use super::*;
use crate::adapters;

#[test]
fn mistakes_in_backends() {
    for (text, expected) in [
        ("[backends.here]\n", "x.toml:1: backends.here: missing field `kind`: one of `sim`"),
        (
            "[backends.here]\nkind = \"slrum\"\n",
            "x.toml:2: backends.here.kind: unknown kind `slrum` (known: `sim`)",
        ),
        (
            "[backends.here]\nkind = \"sims\"\n",
            "x.toml:2: backends.here.kind: unknown kind `sims`; did you mean `sim`? (known: `sim`)",
        ),
        (
            "[backends.here]\nkind = \"sim\"\nmax_running = -1\n",
            "x.toml:3: backends.here.max_running: -1 is not valid: write a whole number from 1 to 4294967295",
        ),
        (
            "[backends.here]\nkind = \"sim\"\nsede = 1\n",
            "x.toml:3: backends.here.sede: unknown field `sede`; did you mean `seed`? (known: `address`, `mode`, `remember`, `seed`, `faults`, `hook_secret`, `discover`, `identity`, `list_lag`, `start_lag`, `key_lifetime`)",
        ),
        (
            "[backends.here]\nkind = \"sim\"\ndiscover = { every = \"0s\" }\n",
            "x.toml:3: backends.here.discover.every: must not be zero: write an interval such as \"5m\"",
        ),
        (
            "[backends.here]\nkind = \"sim\"\ndiscover = { prefix = \"a b\" }\n",
            "x.toml:3: backends.here.discover.prefix: a prefix of tool names has at most 32 letters, digits, `_`, `-` or `.`",
        ),
        (
            "[backends.here]\nkind = \"sim\"\ndiscover = true\n",
            "x.toml:3: backends.here.discover: true is not valid: write a table, { NAME = VALUE } or { }",
        ),
        (
            "[backends.here]\nkind = \"sim\"\nfaults = { outage = 2.0 }\n",
            "x.toml:3: backends.here.faults.outage: 2 is not a probability: write a number from 0 to 1",
        ),
        (
            "[backends.\"a b\"]\nkind = \"sim\"\n",
            "x.toml:1: backends.\"a b\": a backend's name has letters, digits, `_` and `-` only",
        ),
        ("backends = 3\n", "x.toml:1: backends: 3 is not a table: write [backends] above its fields"),
    ] {
        assert_eq!(error_text(text), expected, "{text}");
    }
}

/// An adapter that the program was built without is not a typo. One that it has and does not register is one.
#[test]
fn missing_adapter_names_its_feature() {
    let built = adapters::all();
    for kind in adapters::OPTIONAL {
        let message = match built.get(kind) {
            Some(_) => format!("unknown kind `{kind}` (known: `sim`)"),
            None => format!(
                "this program is built without this kind: build it with the Cargo feature `{kind}`, or use another \
                 (known: `sim`)"
            ),
        };
        let expected = format!("x.toml:2: backends.here.kind: {message}");
        assert_eq!(error_text(&format!("[backends.here]\nkind = \"{kind}\"\n")), expected);
    }
    for adapter in built.iter().filter(|adapter| adapter.kind != "sim") {
        assert!(adapters::OPTIONAL.contains(&adapter.kind), "{}", adapter.kind);
    }
}

#[test]
fn mistakes_in_tools() {
    for (text, expected) in [
        (
            "backed = 1\n",
            "x.toml:6: tools.t.backed: unknown field `backed`; did you mean `backend`? (known: `title`, `description`, `annotations`, `backend`, `target`, `parameters`, `input_schema`, `sensitive`, `output_schema`, `task_support`, `confirm`, `confirm_default`, `ask`, `max_running`, `max_running_per_owner`, `when_full`, `concurrency_group`, `max_runtime`, `max_wait`, `outcome_grace`, `on_expiry`, `keep_result`, `start_within`, `settle_window`, `on_decline`, `on_dismiss`, `answer_within`, `on_abandon`, `result_bytes`, `answer_by_model`, `keep_arguments`, `duration_depends_on`, `access`)",
        ),
        (
            "annotations = { readonly = true }\n",
            "x.toml:6: tools.t.annotations.readonly: unknown field `readonly`; did you mean `read_only`? (known: `read_only`, `destructive`, `idempotent`, `open_world`)",
        ),
        (
            "task_support = \"requird\"\n",
            "x.toml:6: tools.t.task_support: unknown value \"requird\"; did you mean \"required\"? (known: \"required\", \"optional\", \"forbidden\")",
        ),
        ("max_runtime = \"0s\"\n", "x.toml:6: tools.t.max_runtime: must not be zero: no job could run"),
        ("max_wait = \"0s\"\n", "x.toml:6: tools.t.max_wait: must not be zero: no job could run"),
        (
            "answer_within = \"0s\"\n",
            "x.toml:6: tools.t.answer_within: must not be zero: no question could be answered; remove it for no limit",
        ),
        (
            "confirm = \"\"\n",
            "x.toml:6: tools.t.confirm: no text: write a question, such as \"Really delete {{ path }}?\"",
        ),
        (
            "confirm = \"Delete {{ pth }}?\"\nparameters = { path = { type = \"string\" } }\n",
            "x.toml:6: tools.t.confirm: unknown parameter `pth`; did you mean `path`? (known: `path`)",
        ),
        (
            "duration_depends_on = [\"stps\"]\nparameters = { steps = { type = \"integer\" } }\n",
            "x.toml:6: tools.t.duration_depends_on: unknown parameter `stps`; did you mean `steps`? (known: `steps`)",
        ),
        (
            "duration_depends_on = [\"key\"]\nparameters = { key = { type = \"string\", sensitive = true } }\n",
            "x.toml:6: tools.t.duration_depends_on: must not name `key`: secrets, files and tasks are not compared",
        ),
        (
            "confirm = \"Use {{ key }}?\"\nparameters = { key = { type = \"string\", sensitive = true } }\n",
            "x.toml:6: tools.t.confirm: must not refer to `key`: secrets and files are not shown",
        ),
        (
            "confirm_default = \"accept\"\n",
            "x.toml:6: tools.t.confirm_default: only allowed with `confirm`: set it, or remove this",
        ),
        (
            "input_schema = { type = \"array\" }\n",
            "x.toml:6: tools.t.input_schema: the schema's own `type` must be \"object\"",
        ),
        (
            "input_schema = 3\n",
            "x.toml:6: tools.t.input_schema: must be a JSON Schema (a table) or the path of a .json file",
        ),
        (
            "input_schema = \"none.json\"\n",
            "x.toml:6: tools.t.input_schema: /etc/bridge/none.json cannot be read: No such file or directory (os error 2)",
        ),
        (
            "input_schema = { type = \"object\" }\nparameters = { a = { type = \"string\" } }\n",
            "x.toml:7: tools.t.parameters: a tool has either `parameters` or `input_schema`: remove one of the two",
        ),
        (
            "input_schema = { type = \"object\", properties = { a = {} } }\nsensitive = [\"b\"]\n",
            "x.toml:7: tools.t.sensitive[0]: unknown property `b`; did you mean `a`? (known: `a`)",
        ),
        (
            "[tools.t.output_schema]\ntype = \"object\"\n[tools.t.output_schema.properties.a]\n\"$ref\" = \"https://example.com/a\"\n",
            "x.toml:6: tools.t.output_schema: external `$ref` https://example.com/a is not fetched: copy that schema into `$defs` and refer to the copy",
        ),
    ] {
        assert_eq!(with_tool(text), expected, "{text}");
    }
    assert_eq!(
        with_backend("[tools.t]\nbackend = \"hre\"\n"),
        "x.toml:3: tools.t: missing field `target`: set in [tools.t.target] what the backend runs\n\
         x.toml:4: tools.t.backend: unknown backend `hre`; did you mean `here`? (known: `here`)"
    );
    assert_eq!(
        with_backend("[tools.t]\nbackend = \"hre\"\ntarget = {}\n"),
        "x.toml:4: tools.t.backend: unknown backend `hre`; did you mean `here`? (known: `here`)"
    );
    assert_eq!(
        with_backend("[tools.t]\nbackend = \"here\"\ntarget = { delay = 1, outcome = \"fial\" }\n"),
        "x.toml:5: tools.t.target.delay: unknown field `delay` (known: `delay_ms`, `steps`, `outcome`, `text`, `structured`, `question`, `ignore_cancel`, `cannot_cancel`, `renames`, `retry_after_ms`, `panic_on_poll`, `lines`, `notes`, `files`, `link`)\n\
         x.toml:5: tools.t.target.outcome: unknown value \"fial\"; did you mean \"fail\"? (known: \"succeed\", \"fail\", \"gone\", \"refuse\")"
    );
    assert_eq!(
        with_backend(
            "[tools.t]\nbackend = \"here\"\n[tools.t.target]\nquestion = { message = \"?\", schema = {} }\n"
        ),
        "x.toml:6: tools.t.target.question.schema: must be a JSON Schema with \"type\": \"object\", not {}"
    );
    assert_eq!(
        with_backend(
            "[tools.\"a b\"]\nbackend = \"here\"\ntarget = {}\n[tools.task_wait]\nbackend = \"here\"\ntarget = {}\n"
        ),
        "x.toml:3: tools.\"a b\": a tool's name has 1 to 128 letters, digits, `_`, `-` or `.`\n\
         x.toml:6: tools.task_wait: the name is reserved for a tool of the server: choose another"
    );
}

#[test]
fn mistakes_in_parameters() {
    for (text, expected) in [
        (
            "{}",
            "x.toml:7: tools.t.parameters.p: missing field `type`: \"string\", \"integer\", \"number\", \"boolean\", \"array\", \"file\" or \"task\" (or list its values in `enum`)",
        ),
        (
            "{ type = \"int\" }",
            "x.toml:7: tools.t.parameters.p.type: unknown value \"int\" (known: \"string\", \"integer\", \"number\", \"boolean\", \"array\", \"file\", \"task\")",
        ),
        (
            "{ type = \"string\", minimum = 1 }",
            "x.toml:7: tools.t.parameters.p.minimum: not allowed with type = \"string\", only with \"integer\", \"number\"",
        ),
        (
            "{ type = \"integer\", default = \"x\" }",
            "x.toml:7: tools.t.parameters.p.default: does not match the parameter: `value`: \"x\" is not of type \"integer\" (rule `type`)",
        ),
        (
            "{ type = \"integer\", default = 1, required = true }",
            "x.toml:7: tools.t.parameters.p.default: a required parameter needs no default: remove one of the two",
        ),
        (
            "{ type = \"string\", default = \"hush\", sensitive = true }",
            "x.toml:7: tools.t.parameters.p.default: a sensitive parameter cannot have a default: every reader of this file would see it",
        ),
        ("{ enum = [] }", "x.toml:7: tools.t.parameters.p.enum: must not be empty: list at least one value"),
        (
            "{ type = \"array\" }",
            "x.toml:7: tools.t.parameters.p: missing field `items`, such as items = { type = \"string\" }",
        ),
        (
            "{ type = \"array\", items = { type = \"file\" } }",
            "x.toml:7: tools.t.parameters.p.items.type: items cannot be of type \"file\": write the tool's `input_schema` instead",
        ),
        (
            "{ type = \"array\", items = { type = \"string\", required = true } }",
            "x.toml:7: tools.t.parameters.p.items.required: belongs to the parameter, not to its items: move it",
        ),
        (
            "{ type = \"task\", sensitive = true }",
            "x.toml:7: tools.t.parameters.p.sensitive: a task id is not a secret to its owner: remove it",
        ),
        (
            "{ type = \"task\", pattern = \"x\" }",
            "x.toml:7: tools.t.parameters.p.pattern: not allowed with type = \"task\", only with \"string\"",
        ),
        (
            "{ type = \"string\", roots = [\"/\"] }",
            "x.toml:7: tools.t.parameters.p.roots: not allowed with type = \"string\", only with \"file\"",
        ),
    ] {
        assert_eq!(with_tool(&format!("[tools.t.parameters]\np = {text}\n")), expected, "{text}");
    }
    let pattern = with_tool("[tools.t.parameters]\np = { type = \"string\", pattern = \"(\" }\n");
    assert!(
        pattern.starts_with("x.toml:7: tools.t.parameters.p: not a valid JSON Schema: `pattern`: "),
        "{pattern}"
    );
}

/// Only known parameters are asked for, once each, and secrets must not be in headers.
#[test]
fn asked_and_header_parameters_are_checked() {
    let parameters = "[tools.t.parameters]\n\
        a = { type = \"string\" }\n\
        secret = { type = \"string\", sensitive = true }\n\
        list = { type = \"array\", items = { type = \"string\" } }\n";
    let sampling = "sampling = { messages = [{ role = \"user\", content = { type = \"text\", text = \"?\" } }], maxTokens = 9 }";
    for (ask, expected) in [
        ("", "set exactly one of `parameters` (a form), `url`, `sampling` and `roots = true`"),
        ("parameters = [\"a\"]\nroots = true", "set exactly one of"),
        ("parameters = [\"b\"]", "unknown parameter `b`"),
        ("parameters = [\"secret\"]", "`secret` is a secret or a file"),
        ("parameters = [\"list\"]", "`list` is of type array"),
        ("url = \"http://example.com/\"", "is not the address of a page"),
        ("roots = true", "write the parameter that receives the answer"),
        ("roots = true\nparameter = \"a\"", "`a` is of type string"),
        (sampling, "write the parameter that receives the answer"),
        ("sampling = {}\nparameter = \"a\"", "missing field `messages`"),
        ("parameters = [\"a\"]\nparameter = \"a\"", "only allowed with `sampling` or `roots`"),
    ] {
        let errors = with_tool(&format!("{parameters}[tools.t.ask.k]\nmessage = \"?\"\n{ask}\n"));
        assert!(errors.contains("tools.t.ask.k") && errors.contains(expected), "{ask}: {errors}");
    }
    for (parameter, expected) in [
        ("{ type = \"string\", sensitive = true, ask = \"?\" }", "p.ask: a secret must not be asked for"),
        (
            "{ type = \"string\", sensitive = true, header = \"P\" }",
            "p.header: a secret must not be asked for",
        ),
        ("{ type = \"string\", default = \"x\", ask = \"?\" }", "p.ask: a parameter with a default"),
        ("{ type = \"string\", header = \"a b\" }", "is not a header name"),
        ("{ type = \"number\", header = \"P\" }", "p.header: not allowed with type = \"number\""),
    ] {
        let errors = with_tool(&format!("[tools.t.parameters]\np = {parameter}\n"));
        assert!(errors.contains(expected), "{parameter}: {errors}");
    }
    let twice = format!("{parameters}[tools.t.ask.k]\nmessage = \"?\"\nparameters = [\"a\"]\n");
    let twice = twice.replace("a = { type = \"string\" }", "a = { type = \"string\", ask = \"?\" }");
    assert!(with_tool(&twice).contains("the parameter `a` is asked for twice"));
    let schema = "sensitive = [\"key\"]\n[tools.t.input_schema]\ntype = \"object\"\n\
        properties.key = { type = \"string\", x-mcp-header = \"Key\" }\n";
    assert!(with_tool(schema).contains("`key` is a secret, and must not be sent in a header"));
}
