//! [`describe`]: explains why a value does not match a schema, with bounded work. The validator's own
//! errors contain all errors of all branches of `anyOf` and `oneOf`, and their number is unbounded. It must
//! not decide whether a value matches: the validator does.

mod message;

use std::collections::HashMap;
use std::rc::Rc;

use jsonschema::{Draft, Validator};
use serde_json::{Map, Value, json};

pub(super) use self::message::MessageContext;
use self::message::{Path, RuleKind, SchemaViolation, Segment, no_match_message};
use super::complexity::ReferenceTargets;

/// Maximum number of violations in one description.
const MAX_VIOLATIONS: usize = 5;
/// Maximum work for one description, in steps: a schema check is one, and compiling costs more (see below).
const MAX_STEPS: usize = 20_000;
/// Cost in steps to compile the rules of one schema.
const COMPILE_COST: usize = 200;
/// Additional cost of each pattern among them, which may become large.
const PATTERN_COST: usize = 2_000;

/// Keywords that are not passed to the validator: those with schemas of their own, and those that are not
/// rules.
const NON_RULE_KEYWORDS: [&str; 34] = [
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
const SKIPPED_KEYWORDS: [&str; 2] = ["unevaluatedItems", "unevaluatedProperties"];

/// Describes why a value does not match the schema: path, value and rule of each violation, up to five.
pub(super) fn describe(schema: &Value, draft: Draft, value: &Value, context: &MessageContext<'_>) -> String {
    let mut walk = Walk {
        targets: ReferenceTargets::collect(schema),
        draft,
        context,
        steps: MAX_STEPS,
        cache: HashMap::new(),
        rules: HashMap::new(),
        patterns: HashMap::new(),
    };
    let violations = walk.violations(schema, value, Path::ROOT);
    if violations.is_empty() {
        return format!("`{}` does not match the schema", context.value_name);
    }
    let mut texts: Vec<&str> =
        violations.iter().take(MAX_VIOLATIONS).map(|violation| violation.text.as_str()).collect();
    if violations.len() > MAX_VIOLATIONS {
        texts.push("and more");
    }
    texts.join("; ")
}

type Violations = Rc<[SchemaViolation]>;

struct Walk<'a> {
    targets: ReferenceTargets<'a>,
    draft: Draft,
    context: &'a MessageContext<'a>,
    /// Remaining steps.
    steps: usize,
    /// Known violations by the memory addresses of schema and value; empty while they are being found.
    cache: HashMap<(*const Value, *const Value), Violations>,
    rules: HashMap<*const Map<String, Value>, Option<Rc<Validator>>>,
    patterns: HashMap<&'a str, Option<Rc<Validator>>>,
}

impl<'a> Walk<'a> {
    /// Returns the violations of this value: at most one more than are named. Empty if it matches, or if
    /// the steps are used up.
    fn violations(&mut self, schema: &'a Value, value: &'a Value, path: &Path<'_>) -> Violations {
        let schema_members = match schema {
            Value::Bool(false) => {
                return [self.context.violation(path, "false", "no value is allowed here", RuleKind::Other)]
                    .into();
            }
            Value::Object(members) => members,
            _ => return [].into(),
        };
        let key = (std::ptr::from_ref(schema), std::ptr::from_ref(value));
        if let Some(cached) = self.cache.get(&key) {
            return cached.clone();
        }
        if !self.spend(1) {
            return [].into();
        }
        // A schema that recurses into itself adds no violations.
        self.cache.insert(key, [].into());
        let mut violations = self.rule_violations(schema_members, value, path);
        self.check_same_value(schema_members, value, path, &mut violations);
        match value {
            Value::Object(members) => self.check_members(schema_members, members, path, &mut violations),
            Value::Array(items) => self.check_items(schema_members, items, path, &mut violations),
            _ => {}
        }
        violations.truncate(MAX_VIOLATIONS + 1);
        let violations: Violations = violations.into();
        self.cache.insert(key, violations.clone());
        violations
    }

    /// Consumes steps. Returns false if too few are left, and then none remain.
    fn spend(&mut self, steps: usize) -> bool {
        let enough = self.steps >= steps;
        self.steps = if enough { self.steps - steps } else { 0 };
        enough
    }

    /// Returns true if no violation is found here.
    fn is_valid(&mut self, schema: &'a Value, value: &'a Value, path: &Path<'_>) -> bool {
        self.violations(schema, value, path).is_empty()
    }

    /// Returns the violations of the rules without nested schemas.
    fn rule_violations(
        &mut self,
        schema: &'a Map<String, Value>,
        value: &Value,
        path: &Path<'_>,
    ) -> Vec<SchemaViolation> {
        let Some(validator) = self.compile_rules(schema) else { return Vec::new() };
        let errors = validator.iter_errors(value).take(MAX_VIOLATIONS + 1);
        errors.map(|error| self.context.violation_from_error(&error, path)).collect()
    }

    fn compile_rules(&mut self, schema: &'a Map<String, Value>) -> Option<Rc<Validator>> {
        if let Some(cached) = self.rules.get(&std::ptr::from_ref(schema)) {
            return cached.clone();
        }
        let is_rule = |name: &str| !NON_RULE_KEYWORDS.contains(&name) && !SKIPPED_KEYWORDS.contains(&name);
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
        let validator = match rules.is_empty() || !self.spend(COMPILE_COST + PATTERN_COST * patterns) {
            true => None,
            false => self.compile(&Value::Object(rules)),
        };
        self.rules.insert(schema, validator.clone());
        validator
    }

    fn compile(&self, rules: &Value) -> Option<Rc<Validator>> {
        super::options().with_draft(self.draft).build(rules).ok().map(Rc::new)
    }

    /// Adds the violations of the schemas that apply to the same value.
    fn check_same_value(
        &mut self,
        schema: &'a Map<String, Value>,
        value: &'a Value,
        path: &Path<'_>,
        violations: &mut Vec<SchemaViolation>,
    ) {
        for target in self.targets.resolve(schema) {
            violations.extend_from_slice(&self.violations(target, value, path));
        }
        for branch in list(schema, "allOf") {
            violations.extend_from_slice(&self.violations(branch, value, path));
        }
        for keyword in ["anyOf", "oneOf"] {
            violations.extend(self.alternative_violations(keyword, list(schema, keyword), value, path));
        }
        if let Some(not) = schema.get("not")
            && self.is_valid(not, value, path)
            && self.steps > 0
        {
            violations.push(self.context.violation(
                path,
                "not",
                "the value matches a forbidden schema",
                RuleKind::Other,
            ));
        }
        if let Some(condition) = schema.get("if") {
            let then = if self.is_valid(condition, value, path) { "then" } else { "else" };
            if let Some(then) = schema.get(then) {
                violations.extend_from_slice(&self.violations(then, value, path));
            }
        }
        let Value::Object(members) = value else { return };
        for keyword in ["dependentSchemas", "dependencies"] {
            for (name, dependent) in object(schema, keyword) {
                if members.contains_key(name) {
                    violations.extend_from_slice(&self.violations(dependent, value, path));
                }
            }
        }
    }

    /// Checks the alternatives of `anyOf` or `oneOf`. Returns the violations of the closest
    /// alternative.
    fn alternative_violations(
        &mut self,
        keyword: &str,
        alternatives: &'a [Value],
        value: &'a Value,
        path: &Path<'_>,
    ) -> Vec<SchemaViolation> {
        let mut best: Option<Violations> = None;
        let mut matching = 0;
        for alternative in alternatives {
            let violations = self.violations(alternative, value, path);
            if self.steps == 0 {
                // An unchecked alternative may match.
                return Vec::new();
            }
            matching += usize::from(violations.is_empty());
            if best.as_ref().is_none_or(|best| distance(&violations, path) < distance(best, path)) {
                best = Some(violations);
            }
        }
        match (matching, best) {
            (0, Some(best))
                if best
                    .iter()
                    .all(|violation| violation.depth > path.depth || violation.kind == RuleKind::Other) =>
            {
                best.to_vec()
            }
            (0, Some(_)) => {
                vec![self.context.violation(
                    path,
                    keyword,
                    &no_match_message(alternatives),
                    RuleKind::Alternatives,
                )]
            }
            (2.., _) if keyword == "oneOf" => {
                let message = format!(
                    "matches {matching} of the {} alternatives, must match exactly one",
                    alternatives.len()
                );
                vec![self.context.violation(path, keyword, &message, RuleKind::Other)]
            }
            _ => Vec::new(),
        }
    }

    fn check_members(
        &mut self,
        schema: &'a Map<String, Value>,
        members: &'a Map<String, Value>,
        path: &Path<'_>,
        violations: &mut Vec<SchemaViolation>,
    ) {
        let properties = schema.get("properties").and_then(Value::as_object);
        let additional = schema.get("additionalProperties").filter(|additional| additional.is_object());
        for (name, value) in members {
            if violations.len() > MAX_VIOLATIONS {
                return;
            }
            let path = path.child(Segment::Property(name));
            let mut is_named = false;
            if let Some(property) = properties.and_then(|properties| properties.get(name)) {
                is_named = true;
                violations.extend_from_slice(&self.violations(property, value, &path));
            }
            for (pattern, property) in object(schema, "patternProperties") {
                if self.matches_pattern(pattern, name) {
                    is_named = true;
                    violations.extend_from_slice(&self.violations(property, value, &path));
                }
            }
            if let Some(additional) = additional.filter(|_| !is_named) {
                violations.extend_from_slice(&self.violations(additional, value, &path));
            }
            if let Some(Value::Object(rules)) = schema.get("propertyNames") {
                let name_violations = self.rule_violations(rules, &Value::from(name.as_str()), &path);
                violations.extend(name_violations);
            }
        }
    }

    fn matches_pattern(&mut self, pattern: &'a str, name: &str) -> bool {
        if !self.patterns.contains_key(pattern) {
            let validator = match self.spend(PATTERN_COST) {
                true => self.compile(&json!({"pattern": pattern})),
                false => None,
            };
            self.patterns.insert(pattern, validator);
        }
        self.spend(1) && self.patterns[pattern].as_ref().is_some_and(|rule| rule.is_valid(&Value::from(name)))
    }

    fn check_items(
        &mut self,
        schema: &'a Map<String, Value>,
        items: &'a [Value],
        path: &Path<'_>,
        violations: &mut Vec<SchemaViolation>,
    ) {
        // Drafts before 2020-12 use `items` and `additionalItems` for `prefixItems` and `items`.
        let (prefix_items, other_items) = match schema.get("items") {
            Some(Value::Array(prefix_items)) => (prefix_items.as_slice(), schema.get("additionalItems")),
            other_items => (list(schema, "prefixItems"), other_items),
        };
        for (n, item) in items.iter().enumerate() {
            if violations.len() > MAX_VIOLATIONS || self.steps == 0 {
                return;
            }
            if let Some(item_schema) = prefix_items.get(n).or(other_items) {
                violations.extend_from_slice(&self.violations(
                    item_schema,
                    item,
                    &path.child(Segment::Index(n)),
                ));
            }
        }
        let Some(contains_schema) = schema.get("contains") else { return };
        let min = schema.get("minContains").and_then(Value::as_u64).unwrap_or(1);
        let max = schema.get("maxContains").and_then(Value::as_u64).unwrap_or(u64::MAX);
        let mut count = 0;
        for (n, item) in items.iter().enumerate() {
            count += u64::from(self.is_valid(contains_schema, item, &path.child(Segment::Index(n))));
        }
        if self.steps > 0 && !(min..=max).contains(&count) {
            violations.push(self.context.violation(
                path,
                "contains",
                &format!("{count} of its items match"),
                RuleKind::Other,
            ));
        }
    }
}

/// Returns the distance between a value and an alternative. Violations about the kind of the value count
/// first: its own, or a member's, which often names the kind. Then follow their depth and their number.
fn distance(violations: &[SchemaViolation], path: &Path<'_>) -> (usize, std::cmp::Reverse<usize>, usize) {
    let is_about_kind = |violation: &&SchemaViolation| match violation.kind {
        RuleKind::AllowedValues => violation.depth <= path.depth + 1,
        RuleKind::Type | RuleKind::Alternatives => violation.depth == path.depth,
        RuleKind::Other => false,
    };
    let nearest = violations.iter().map(|violation| violation.depth).min().unwrap_or(usize::MAX);
    (violations.iter().filter(is_about_kind).count(), std::cmp::Reverse(nearest), violations.len())
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
