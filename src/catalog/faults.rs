//! [`describe`]: explains why a value does not match a schema, with bounded work. The validator's own
//! errors contain all errors of all branches of `anyOf` and `oneOf`, and their number is unbounded. It must
//! not decide whether a value matches: the validator does.

use std::collections::HashMap;
use std::rc::Rc;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{Draft, ValidationError, Validator};
use serde_json::{Map, Value, json};
use taskbridge_sdk::short_line;

use super::complexity::Places;

/// Maximum number of faults in one description.
const MAX_FAULTS: usize = 5;
/// Maximum length of a value that is shown, in bytes.
const MAX_SHOWN: usize = 60;
/// Maximum length of a fault's text, in characters.
const MAX_TEXT: usize = 400;
/// Maximum number of `anyOf` and `oneOf` alternatives that are named.
const MAX_FORMS: usize = 10;
/// Maximum work for one description, in steps: a schema check is one, and compiling costs more (see below).
const MAX_STEPS: usize = 20_000;
/// Cost in steps to compile the rules of one schema (`COMPILE`), and each pattern among them, which may
/// become large (`PATTERN`).
const COMPILE: usize = 200;
const PATTERN: usize = 2_000;

/// Keywords that are not passed to the validator: those with schemas of their own, and those that are not
/// rules.
const NOT_RULES: [&str; 34] = [
    "$anchor",
    "$comment",
    "$defs",
    "$dynamicAnchor",
    "$dynamicRef",
    "$id",
    "$recursiveAnchor",
    "$recursiveRef",
    "$ref",
    "$schema",
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "contains",
    "default",
    "definitions",
    "dependencies",
    "dependentSchemas",
    "description",
    "else",
    "examples",
    "id",
    "if",
    "items",
    "maxContains",
    "minContains",
    "not",
    "oneOf",
    "patternProperties",
    "prefixItems",
    "properties",
    "propertyNames",
    "then",
];
/// Keywords whose result depends on all others. They are left to the validator.
const LEFT_OUT: [&str; 2] = ["unevaluatedItems", "unevaluatedProperties"];

/// The name of the value and its secret properties.
pub(super) struct Naming<'a> {
    /// The name of the value as a whole.
    pub(super) whole: &'a str,
    /// Returns true for the top-level properties that must not be shown.
    pub(super) hidden: &'a dyn Fn(&str) -> bool,
}

/// Describes why a value does not match the schema: path, value and rule of each fault, up to five.
pub(super) fn describe(schema: &Value, draft: Draft, value: &Value, naming: &Naming<'_>) -> String {
    let mut walk = Walk {
        places: Places::of(schema),
        draft,
        naming,
        steps: MAX_STEPS,
        known: HashMap::new(),
        rules: HashMap::new(),
        patterns: HashMap::new(),
    };
    let faults = walk.faults(schema, value, Path::WHOLE);
    if faults.is_empty() {
        return format!("`{}` does not fit the schema", naming.whole);
    }
    let mut texts: Vec<&str> = faults.iter().take(MAX_FAULTS).map(|fault| fault.text.as_str()).collect();
    if faults.len() > MAX_FAULTS {
        texts.push("and more");
    }
    texts.join("; ")
}

/// A fault in one part of the value.
#[derive(Clone)]
struct SchemaViolation {
    /// The depth of the part within the whole value.
    depth: usize,
    rule: Rule,
    text: String,
}

/// The kind of rule that failed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// The type of the value.
    Type,
    /// The allowed values. Such a member often names the kind of the whole value.
    Values,
    /// Several alternatives.
    Forms,
    Other,
}

/// A path in the value.
#[derive(Clone, Copy)]
struct Path<'p> {
    last: Option<(&'p Path<'p>, Segment<'p>)>,
    depth: usize,
}

#[derive(Clone, Copy)]
enum Segment<'p> {
    Index(usize),
    Property(&'p str),
}

impl<'p> Path<'p> {
    const WHOLE: &'static Path<'static> = &Path { last: None, depth: 0 };

    fn to(&'p self, segment: Segment<'p>) -> Self {
        Self { last: Some((self, segment)), depth: self.depth + 1 }
    }

    /// Returns the path as text, such as `filters[2].name`, and the top-level property that contains it.
    fn words(&self, whole: &str) -> (String, Option<&'p str>) {
        let Some((before, last)) = self.last else { return (whole.to_owned(), None) };
        let (words, first) = match before.last {
            Some(_) => before.words(whole),
            None => (String::new(), None),
        };
        match last {
            Segment::Index(index) => (format!("{words}[{index}]"), first),
            Segment::Property(name) if words.is_empty() => (name.to_owned(), Some(name)),
            Segment::Property(name) => (format!("{words}.{name}"), first),
        }
    }
}

type Faults = Rc<[SchemaViolation]>;

struct Walk<'a> {
    places: Places<'a>,
    draft: Draft,
    naming: &'a Naming<'a>,
    /// Remaining steps.
    steps: usize,
    /// Known faults by the memory addresses of schema and value; empty while they are being found.
    known: HashMap<(*const Value, *const Value), Faults>,
    rules: HashMap<*const Map<String, Value>, Option<Rc<Validator>>>,
    patterns: HashMap<&'a str, Option<Rc<Validator>>>,
}

impl<'a> Walk<'a> {
    /// Returns the faults of this value: at most one more than are named. Empty if it matches, or if the
    /// steps are used up.
    fn faults(&mut self, schema: &'a Value, value: &'a Value, path: &Path<'_>) -> Faults {
        let schema_members = match schema {
            Value::Bool(false) => {
                return [self.fault(path, "false", "nothing is allowed here", Rule::Other)].into();
            }
            Value::Object(members) => members,
            _ => return [].into(),
        };
        let key = (std::ptr::from_ref(schema), std::ptr::from_ref(value));
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        if !self.spend(1) {
            return [].into();
        }
        // A schema that recurses into itself adds no faults.
        self.known.insert(key, [].into());
        let mut faults = self.of_rules(schema_members, value, path);
        self.of_same_value(schema_members, value, path, &mut faults);
        match value {
            Value::Object(members) => self.of_members(schema_members, members, path, &mut faults),
            Value::Array(items) => self.of_items(schema_members, items, path, &mut faults),
            _ => {}
        }
        faults.truncate(MAX_FAULTS + 1);
        let faults: Faults = faults.into();
        self.known.insert(key, faults.clone());
        faults
    }

    /// Consumes steps. Returns false if too few are left, and then none remain.
    fn spend(&mut self, steps: usize) -> bool {
        let enough = self.steps >= steps;
        self.steps = if enough { self.steps - steps } else { 0 };
        enough
    }

    /// Returns true if no fault is found here.
    fn fits(&mut self, schema: &'a Value, value: &'a Value, path: &Path<'_>) -> bool {
        self.faults(schema, value, path).is_empty()
    }

    /// Returns the faults by the rules without nested schemas.
    fn of_rules(
        &mut self,
        schema: &'a Map<String, Value>,
        value: &Value,
        path: &Path<'_>,
    ) -> Vec<SchemaViolation> {
        let Some(validator) = self.rules_of(schema) else { return Vec::new() };
        let errors = validator.iter_errors(value).take(MAX_FAULTS + 1);
        errors.map(|error| self.of_error(&error, path)).collect()
    }

    fn rules_of(&mut self, schema: &'a Map<String, Value>) -> Option<Rc<Validator>> {
        if let Some(known) = self.rules.get(&std::ptr::from_ref(schema)) {
            return known.clone();
        }
        let is_rule = |name: &str| !NOT_RULES.contains(&name) && !LEFT_OUT.contains(&name);
        let mut rules: Map<String, Value> = schema
            .iter()
            .filter(|(name, _)| is_rule(name))
            .map(|(name, rule)| (name.clone(), rule.clone()))
            .collect();
        if schema.get("additionalProperties") == Some(&Value::Bool(false)) {
            for name in ["properties", "patternProperties"] {
                if let Some(Value::Object(properties)) = schema.get(name) {
                    let names = properties.keys().map(|name| (name.clone(), json!({}))).collect();
                    rules.insert(name.to_owned(), Value::Object(names));
                }
            }
            rules.insert("additionalProperties".to_owned(), Value::Bool(false));
        }
        let patterns = rules.get("patternProperties").and_then(Value::as_object).map_or(0, Map::len)
            + usize::from(rules.contains_key("pattern"));
        let compiled = match rules.is_empty() || !self.spend(COMPILE + PATTERN * patterns) {
            true => None,
            false => self.compile(&Value::Object(rules)),
        };
        self.rules.insert(schema, compiled.clone());
        compiled
    }

    fn compile(&self, rules: &Value) -> Option<Rc<Validator>> {
        super::schema::options().with_draft(self.draft).build(rules).ok().map(Rc::new)
    }

    /// Adds the faults by the schemas that apply to the same value.
    fn of_same_value(
        &mut self,
        schema: &'a Map<String, Value>,
        value: &'a Value,
        path: &Path<'_>,
        faults: &mut Vec<SchemaViolation>,
    ) {
        for referred in self.places.referred(schema) {
            faults.extend_from_slice(&self.faults(referred, value, path));
        }
        for all in list(schema, "allOf") {
            faults.extend_from_slice(&self.faults(all, value, path));
        }
        for keyword in ["anyOf", "oneOf"] {
            faults.extend(self.of_forms(keyword, list(schema, keyword), value, path));
        }
        if let Some(not) = schema.get("not")
            && self.fits(not, value, path)
            && self.steps > 0
        {
            faults.push(self.fault(path, "not", "it is what is not allowed", Rule::Other));
        }
        if let Some(condition) = schema.get("if") {
            let then = if self.fits(condition, value, path) { "then" } else { "else" };
            if let Some(then) = schema.get(then) {
                faults.extend_from_slice(&self.faults(then, value, path));
            }
        }
        let Value::Object(members) = value else { return };
        for keyword in ["dependentSchemas", "dependencies"] {
            for (name, dependent) in object(schema, keyword) {
                if members.contains_key(name) {
                    faults.extend_from_slice(&self.faults(dependent, value, path));
                }
            }
        }
    }

    /// Checks the alternatives of `anyOf` or `oneOf`. Returns the faults of the alternative that fits best.
    fn of_forms(
        &mut self,
        keyword: &str,
        forms: &'a [Value],
        value: &'a Value,
        path: &Path<'_>,
    ) -> Vec<SchemaViolation> {
        let mut best: Option<Faults> = None;
        let mut fitting = 0;
        for form in forms {
            let faults = self.faults(form, value, path);
            if self.steps == 0 {
                // An unchecked alternative may match.
                return Vec::new();
            }
            fitting += usize::from(faults.is_empty());
            if best.as_ref().is_none_or(|best| distance(&faults, path) < distance(best, path)) {
                best = Some(faults);
            }
        }
        match (fitting, best) {
            (0, Some(best))
                if best.iter().all(|fault| fault.depth > path.depth || fault.rule == Rule::Other) =>
            {
                best.to_vec()
            }
            (0, Some(_)) => vec![self.fault(path, keyword, &none_of(forms), Rule::Forms)],
            (2.., _) if keyword == "oneOf" => {
                let words = format!("it fits {fitting} of the {} forms, and must fit one alone", forms.len());
                vec![self.fault(path, keyword, &words, Rule::Other)]
            }
            _ => Vec::new(),
        }
    }

    fn of_members(
        &mut self,
        schema: &'a Map<String, Value>,
        members: &'a Map<String, Value>,
        path: &Path<'_>,
        faults: &mut Vec<SchemaViolation>,
    ) {
        let properties = schema.get("properties").and_then(Value::as_object);
        let others = schema.get("additionalProperties").filter(|others| others.is_object());
        for (name, value) in members {
            if faults.len() > MAX_FAULTS {
                return;
            }
            let path = path.to(Segment::Property(name));
            let mut is_named = false;
            if let Some(property) = properties.and_then(|properties| properties.get(name)) {
                is_named = true;
                faults.extend_from_slice(&self.faults(property, value, &path));
            }
            for (pattern, property) in object(schema, "patternProperties") {
                if self.matches(pattern, name) {
                    is_named = true;
                    faults.extend_from_slice(&self.faults(property, value, &path));
                }
            }
            if let Some(others) = others.filter(|_| !is_named) {
                faults.extend_from_slice(&self.faults(others, value, &path));
            }
            if let Some(Value::Object(rules)) = schema.get("propertyNames") {
                let of_name = self.of_rules(rules, &Value::from(name.as_str()), &path);
                faults.extend(of_name);
            }
        }
    }

    fn matches(&mut self, pattern: &'a str, name: &str) -> bool {
        if !self.patterns.contains_key(pattern) {
            let compiled = match self.spend(PATTERN) {
                true => self.compile(&json!({"pattern": pattern})),
                false => None,
            };
            self.patterns.insert(pattern, compiled);
        }
        self.spend(1) && self.patterns[pattern].as_ref().is_some_and(|rule| rule.is_valid(&Value::from(name)))
    }

    fn of_items(
        &mut self,
        schema: &'a Map<String, Value>,
        items: &'a [Value],
        path: &Path<'_>,
        faults: &mut Vec<SchemaViolation>,
    ) {
        // Drafts before 2020-12 use `items` and `additionalItems` for `prefixItems` and `items`.
        let (first, others) = match schema.get("items") {
            Some(Value::Array(first)) => (first.as_slice(), schema.get("additionalItems")),
            others => (list(schema, "prefixItems"), others),
        };
        for (n, item) in items.iter().enumerate() {
            if faults.len() > MAX_FAULTS || self.steps == 0 {
                return;
            }
            if let Some(of_item) = first.get(n).or(others) {
                faults.extend_from_slice(&self.faults(of_item, item, &path.to(Segment::Index(n))));
            }
        }
        let Some(wanted) = schema.get("contains") else { return };
        let least = schema.get("minContains").and_then(Value::as_u64).unwrap_or(1);
        let most = schema.get("maxContains").and_then(Value::as_u64).unwrap_or(u64::MAX);
        let mut found = 0;
        for (n, item) in items.iter().enumerate() {
            found += u64::from(self.fits(wanted, item, &path.to(Segment::Index(n))));
        }
        if self.steps > 0 && !(least..=most).contains(&found) {
            faults.push(self.fault(path, "contains", &format!("{found} of its items fit"), Rule::Other));
        }
    }

    fn of_error(&self, error: &ValidationError<'_>, path: &Path<'_>) -> SchemaViolation {
        let keyword = error.kind().keyword();
        // A value that is not a scalar may contain a hidden part, and is too long anyway.
        let value = match error.instance().as_ref() {
            value @ (Value::String(_) | Value::Number(_) | Value::Bool(_) | Value::Null) => {
                Some(value.to_string()).filter(|text| text.len() <= MAX_SHOWN)
            }
            _ => None,
        };
        let words = error.masked_with(value.unwrap_or_else(|| "the value".to_owned())).to_string();
        let rule = match error.kind() {
            ValidationErrorKind::Type { .. } => Rule::Type,
            ValidationErrorKind::Constant { .. } | ValidationErrorKind::Enum { .. } => Rule::Values,
            _ => Rule::Other,
        };
        self.fault(path, keyword, &words, rule)
    }

    fn fault(&self, path: &Path<'_>, keyword: &str, words: &str, rule: Rule) -> SchemaViolation {
        let (place, property) = path.words(self.naming.whole);
        // Even a text without the value can repeat part of it, such as the names of unexpected properties.
        let text = match property.is_some_and(|name| (self.naming.hidden)(name)) {
            true => format!("`{place}`: the value (hidden) does not fit the rule `{keyword}`"),
            false => format!("`{place}`: {} (rule `{keyword}`)", short_line(words, MAX_TEXT)),
        };
        SchemaViolation { depth: path.depth, rule, text }
    }
}

/// Returns the distance between a value and an alternative. Faults about the kind of the value count first:
/// its own, or a member's, which often names the kind. Then follow the depth of the faults and their
/// number.
fn distance(faults: &[SchemaViolation], path: &Path<'_>) -> (usize, std::cmp::Reverse<usize>, usize) {
    let of_kind = |fault: &&SchemaViolation| match fault.rule {
        Rule::Values => fault.depth <= path.depth + 1,
        Rule::Type | Rule::Forms => fault.depth == path.depth,
        Rule::Other => false,
    };
    let nearest = faults.iter().map(|fault| fault.depth).min().unwrap_or(usize::MAX);
    (faults.iter().filter(of_kind).count(), std::cmp::Reverse(nearest), faults.len())
}

/// Describes that a value matches none of these alternatives, and names the simple ones among them.
fn none_of(forms: &[Value]) -> String {
    let short = |value: &Value| Some(value.to_string()).filter(|text| text.len() <= MAX_SHOWN);
    let names =
        forms.iter().filter_map(|form| match (form.get("const"), form.get("enum"), form.get("type")) {
            (Some(value), ..) | (_, Some(value), _) => short(value),
            (.., Some(kind)) => short(kind).map(|kind| format!("type {kind}")),
            _ => None,
        });
    let names: Vec<String> = names.take(MAX_FORMS).collect();
    let count = match forms.len() {
        1 => "the form that is allowed".to_owned(),
        n => format!("any of the {n} forms that are allowed"),
    };
    match names.is_empty() {
        true => format!("it does not fit {count}"),
        false if names.len() < forms.len() => {
            format!("it does not fit {count}, among them {}", names.join(", "))
        }
        false => format!("it does not fit {count}: {}", names.join(", ")),
    }
}

fn list<'a>(schema: &'a Map<String, Value>, keyword: &str) -> &'a [Value] {
    schema.get(keyword).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn object<'a>(
    schema: &'a Map<String, Value>,
    keyword: &str,
) -> impl Iterator<Item = (&'a String, &'a Value)> {
    schema.get(keyword).and_then(Value::as_object).into_iter().flatten()
}
