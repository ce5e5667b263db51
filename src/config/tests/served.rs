//! Errors in resources, templates and prompts, with their exact messages. It must not serve any of them.

use super::*;
use crate::catalog::Values;

#[test]
fn mistakes_in_resources() {
    for (text, expected) in [
        ("text = \"x\"\n", "x.toml:3: resources.r: missing field `uri`: add it"),
        (
            "uri = \"runbook\"\ntext = \"x\"\n",
            "x.toml:4: resources.r.uri: \"runbook\" is not a URI: write one such as \"runbook://deploy\", and percent-encode special characters",
        ),
        (
            "uri = \"taskbridge://x\"\ntext = \"x\"\n",
            "x.toml:4: resources.r.uri: this scheme is reserved for logs and artifacts: choose another one",
        ),
        ("uri = \"a:b\"\n", "x.toml:3: resources.r: no content: set `text`, `file` or `blob`"),
        (
            "uri = \"a:b\"\ntext = \"x\"\nblob = \"eA==\"\n",
            "x.toml:3: resources.r: more than one content: keep one of `text`, `file` and `blob`",
        ),
        (
            "uri = \"a:b\"\nblob = \"?\"\n",
            "x.toml:5: resources.r.blob: not base64 (standard alphabet, padded)",
        ),
        (
            "uri = \"a:b\"\nblob = \"/w==\"\nmime_type = \"text/plain\"\n",
            "x.toml:3: resources.r: not text in UTF-8, which its media type text/plain requires: set `mime_type`",
        ),
        (
            "uri = \"a:b\"\nfile = \"none.md\"\n",
            "x.toml:5: resources.r.file: /etc/bridge/none.md cannot be read: No such file or directory (os error 2)",
        ),
        ("uri = \"a:b\"\nfile = \"/dev\"\n", "x.toml:5: resources.r.file: /dev is not a file"),
        (
            "uri = \"a:b\"\ntext = \"x\"\ntools = [\"d\"]\n",
            "x.toml:6: resources.r.tools[0]: unknown tool `d` (there is no tool)",
        ),
        (
            "uri = \"a:b\"\ntext = \"x\"\nannotations = { priority = 2 }\n",
            "x.toml:6: resources.r.annotations.priority: must be a number from 0 to 1",
        ),
        (
            "uri = \"a:b\"\ntext = \"x\"\nannotations = { audience = [\"usr\"] }\n",
            "x.toml:6: resources.r.annotations.audience[0]: unknown value \"usr\"; did you mean \"user\"? (known: \"user\", \"assistant\")",
        ),
        (
            "uri = \"a:{b}\"\ntext = \"{{ c }}\"\n",
            "x.toml:5: resources.r.text: unknown placeholder `c`; did you mean `b`? (known: `b`)",
        ),
        (
            "uri = \"a:{b}\"\ntext = \"{{ b\"\n",
            "x.toml:5: resources.r.text: syntax error: unexpected end of input, expected end of variable block",
        ),
        (
            "uri = \"a:{b}\"\ntext = \"x\"\ntools = []\nplaces.c = {}\n",
            "x.toml:7: resources.r.places.c: unknown placeholder `c`; did you mean `b`? (known: `b`)",
        ),
        (
            "uri = \"a:b\"\ntext = \"x\"\nplaces.c = {}\n",
            "x.toml:6: resources.r.places.c: the URI has no placeholder `{c}`",
        ),
        (
            "uri = \"a:{b}\"\ntext = \"x\"\nplaces.b = { enum = [\"x\"], suggest = [\"y\"] }\n",
            "x.toml:6: resources.r.places.b: more than one list of values: keep one of `enum`, `suggest`, `same_as`",
        ),
        (
            "uri = \"a:{b}\"\ntext = \"x\"\nplaces.b = { enum = [] }\n",
            "x.toml:6: resources.r.places.b.enum: must not be empty: list at least one value",
        ),
        (
            "uri = \"a:{b}\"\ntext = \"x\"\nplaces.b = { same_as = \"t\" }\n",
            "x.toml:6: resources.r.places.b.same_as: \"t\" is not a parameter: write it as TOOL.PARAMETER",
        ),
        (
            "uri = \"a:b\"\ntext = \"x\"\n[resources.s]\nuri = \"a:b\"\ntext = \"y\"\n",
            "x.toml:7: resources.s.uri: `r` has the same URI: choose another",
        ),
    ] {
        assert_eq!(with_backend(&format!("[resources.r]\n{text}")), expected, "{text}");
    }
    assert_eq!(
        with_backend("[resources.\"a b\"]\nuri = \"a:b\"\ntext = \"x\"\n"),
        "x.toml:3: resources.\"a b\": a name has 1 to 128 letters, digits, `_`, `-` or `.`"
    );
}

/// `same_as` takes the values of a parameter that lists them and is not sensitive.
#[test]
fn placeholder_values_come_from_parameter() {
    let same_as = |parameter: &str, place: &str| {
        read(&format!(
            "[backends.here]\nkind = \"sim\"\n[tools.t]\nbackend = \"here\"\ntarget = {{}}\n[tools.t.parameters]\n\
             p = {parameter}\n[resources.r]\nuri = \"a:{{b}}\"\ntext = \"x\"\nplaces.b = {{ same_as = \"{place}\" }}\n"
        ))
        .map(|config| config.resources.template("a:{b}").unwrap().parameters[0].values.clone())
        .map_err(|problems| problems.to_string())
    };
    let only = |values: &[&str]| Ok(Values::Only(values.iter().map(|value| (*value).to_owned()).collect()));
    assert_eq!(same_as("{ enum = [\"a\", \"b\"] }", "t.p"), only(&["a", "b"]));
    assert_eq!(same_as("{ enum = [1, 2] }", "t.p"), only(&["1", "2"]));
    assert_eq!(same_as("{ type = \"boolean\" }", "t.p"), only(&["true", "false"]));
    assert_eq!(same_as("{ type = \"array\", items = { enum = [\"a\"] } }", "t.p"), only(&["a"]));
    let field = "x.toml:11: resources.r.places.b.same_as: ";
    for (parameter, place, expected) in [
        (
            "{ type = \"string\" }",
            "t.p",
            "`p` has no list of values: add an `enum` to it, or list values here",
        ),
        ("{ type = \"string\" }", "t.q", "unknown parameter `q`; did you mean `p`? (known: `p`)"),
        ("{ type = \"string\" }", "u.p", "unknown tool `u`; did you mean `t`? (known: `t`)"),
        ("{ enum = [\"a\"], sensitive = true }", "t.p", "`p` is sensitive: its values are not shown"),
    ] {
        assert_eq!(same_as(parameter, place), Err(format!("{field}{expected}")), "{parameter} {place}");
    }
}

#[test]
fn mistakes_in_prompts() {
    for (text, expected) in [
        ("", "x.toml:3: prompts.p: missing field `messages`: add it"),
        ("messages = []\n", "x.toml:4: prompts.p.messages: must not be empty: add at least one message"),
        (
            "messages = [{ txt = \"x\" }]\n",
            "x.toml:4: prompts.p.messages[0].txt: unknown field `txt`; did you mean `text`? (known: `role`, `text`, `file`, `resource`, `link`, `image`, `audio`)",
        ),
        (
            "messages = [{ role = \"user\" }]\n",
            "x.toml:4: prompts.p.messages[0]: set exactly one of `text`, `file`, `resource`, `link`, `image` and `audio`",
        ),
        (
            "messages = [{ text = \"{{ versoin }}\" }]\narguments = [{ name = \"version\" }]\n",
            "x.toml:4: prompts.p.messages[0].text: unknown argument `versoin`; did you mean `version`? (known: `version`)",
        ),
        (
            "messages = [{ text = \"{{ a | shuot }}\" }]\narguments = [{ name = \"a\" }]\n",
            "x.toml:4: prompts.p.messages[0].text: unknown filter: filter shuot is unknown",
        ),
        (
            "messages = [{ file = \"none.md\" }]\n",
            "x.toml:4: prompts.p.messages[0].file: /etc/bridge/none.md cannot be read: No such file or directory (os error 2)",
        ),
        (
            "messages = [{ image = \"a.txt\" }]\n",
            "x.toml:4: prompts.p.messages[0].image: /etc/bridge/a.txt has the wrong extension: use a file that ends in .png, .jpg, .gif, .webp or .svg",
        ),
        (
            "messages = [{ resource = \"a:b\" }]\n",
            "x.toml:4: prompts.p.messages[0].resource: unknown resource `a:b` (there is no resource)",
        ),
        (
            "messages = [{ text = \"x\" }]\narguments = [{ name = \"a b\" }]\n",
            "x.toml:5: prompts.p.arguments[0].name: \"a b\" is not a name that a template can use: letters, digits and `_`",
        ),
        (
            "messages = [{ text = \"x\" }]\narguments = [{ name = \"a\" }, { name = \"a\" }]\n",
            "x.toml:5: prompts.p.arguments[1].name: duplicate argument `a`: remove one of the two",
        ),
        (
            "messages = [{ text = \"x\" }]\narguments = [{ name = \"a\", required = true, default = \"b\" }]\n",
            "x.toml:5: prompts.p.arguments[0].default: a required argument needs no default: remove one of the two",
        ),
        (
            "messages = [{ text = \"x\" }]\narguments = [{ name = \"a\", ask = \"Which?\", default = \"b\" }]\n",
            "x.toml:5: prompts.p.arguments[0].ask: an argument with a default is never missing: remove one of the two",
        ),
        (
            "messages = [{ text = \"x\" }]\narguments = [{ name = \"a\", enum = [\"x\"], default = \"b\" }]\n",
            "x.toml:5: prompts.p.arguments[0].default: unknown value `b`; did you mean `x`? (known: `x`)",
        ),
    ] {
        assert_eq!(with_backend(&format!("[prompts.p]\n{text}")), expected, "{text}");
    }
}
