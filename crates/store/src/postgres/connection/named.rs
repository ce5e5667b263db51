//! Named parameters. A statement names them (`:owner`), but PostgreSQL only numbers them (`$1`). A statement
//! is translated once, and found by its text from then on.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;
use tokio_postgres::types::ToSql;

use super::fault::PostgresError;

/// A value of a parameter.
pub(in crate::postgres) type Param<'p> = &'p (dyn ToSql + Sync);

/// A parameter: its name after a colon, and its value.
pub(in crate::postgres) type NamedParam<'p> = (&'static str, Param<'p>);

/// The parameters of a statement, in any order.
pub(in crate::postgres) type Params<'p> = &'p [NamedParam<'p>];

/// Lists parameters like the macro of rusqlite: `named_params! { ":id": id }`.
macro_rules! named_params {
    ($($name:literal: $value:expr),+ $(,)?) => {
        &[$(($name, &$value as $crate::postgres::connection::named::Param<'_>)),+]
    };
}
pub(in crate::postgres) use named_params;

/// Parameters that a write owns until its statement is executed.
pub(in crate::postgres) type OwnedParams = Vec<(&'static str, Box<dyn ToSql + Send + Sync>)>;

/// Lists parameters as `named_params!` does, and takes their values.
macro_rules! owned_params {
    ($($name:literal: $value:expr),+ $(,)?) => {
        vec![$(($name, Box::new($value) as _)),+]
    };
}
pub(in crate::postgres) use owned_params;

/// A statement with numbered parameters, and their names in that order.
#[derive(Debug, PartialEq)]
pub(super) struct NumberedStatement {
    pub(super) sql: String,
    names: Vec<String>,
}

/// The statements by their texts with names. A search compares little, since most texts differ early.
static STATEMENTS: RwLock<BTreeMap<String, Arc<NumberedStatement>>> = RwLock::new(BTreeMap::new());

/// Returns the statement of a text with names.
pub(super) fn numbered(text: &str) -> Arc<NumberedStatement> {
    if let Some(statement) = STATEMENTS.read().get(text) {
        return Arc::clone(statement);
    }
    let statement = Arc::new(number_names(text));
    STATEMENTS.write().insert(text.to_owned(), Arc::clone(&statement));
    statement
}

impl NumberedStatement {
    /// Returns the values in the order of their numbers.
    ///
    /// # Errors
    /// If these are not exactly the parameters of the statement, which is a bug.
    pub(super) fn order<'p>(&self, params: &[NamedParam<'p>]) -> Result<Vec<Param<'p>>, PostgresError> {
        let value = |name: &String| params.iter().find(|(given, _)| given == name).map(|(_, value)| *value);
        let values: Option<Vec<_>> = self.names.iter().map(value).collect();
        values.filter(|values| values.len() == params.len()).ok_or_else(|| {
            let given: Vec<&str> = params.iter().map(|(name, _)| *name).collect();
            PostgresError::Broken(format!(
                "a statement with {:?} was given {given:?}: {}",
                self.names, self.sql
            ))
        })
    }
}

/// Replaces each name by a number, in the order in which they occur first.
fn number_names(text: &str) -> NumberedStatement {
    let (mut sql, mut names) = (String::with_capacity(text.len()), Vec::<String>::new());
    let mut rest = text;
    while !rest.is_empty() {
        let (part, after) = rest.split_at(part_len(rest));
        rest = after;
        if part.len() == 1 || !part.starts_with(':') || part == "::" {
            sql.push_str(part);
            continue;
        }
        let at = names.iter().position(|name| name == part).unwrap_or_else(|| {
            names.push(part.to_owned());
            names.len() - 1
        });
        sql.push_str(&format!("${}", at + 1));
    }
    NumberedStatement { sql, names }
}

/// Returns the length of the first part of a text: a cast (`::`), a literal, a quoted identifier, a comment,
/// a name with its colon, or one character.
fn part_len(text: &str) -> usize {
    for (opening, closing) in [("::", ""), ("'", "'"), ("\"", "\""), ("--", "\n"), ("/*", "*/")] {
        if let Some(inside) = text.strip_prefix(opening) {
            return opening.len() + inside.find(closing).map_or(inside.len(), |at| at + closing.len());
        }
    }
    let name = text.strip_prefix(':').unwrap_or_default();
    let name_len = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(name.len());
    name_len + text.chars().next().map_or(0, char::len_utf8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_numbers() {
        let NumberedStatement { sql, names } =
            number_names("SELECT :now::bigint, moment(:now) + :lease_2 FROM t WHERE a=:é OR b=:b");
        assert_eq!(sql, "SELECT $1::bigint, moment($1) + $2 FROM t WHERE a=:é OR b=$3");
        assert_eq!(names, [":now", ":lease_2", ":b"]);
    }

    #[test]
    fn text_and_comments_are_kept() {
        let text = "SELECT ':a', 'it''s :b', \":c\" -- :d 'e\n, x::text /* :f ' */";
        assert_eq!(number_names(text), NumberedStatement { sql: text.to_owned(), names: Vec::new() });
        assert_eq!(number_names("'a', :a -- 'b").names, [":a"]);
        assert_eq!(number_names("'open :a").names, [""; 0]);
    }

    #[test]
    fn parameters_must_match_names() {
        let statement = numbered("SELECT :a, :b");
        assert!(Arc::ptr_eq(&statement, &numbered("SELECT :a, :b")));
        let ordered = |params: &[NamedParam<'_>]| statement.order(params).map(|values| format!("{values:?}"));
        assert_eq!(ordered(&[(":b", &2), (":a", &1)]).unwrap(), "[1, 2]");
        for wrong in
            [&[(":a", &1 as Param<'_>)][..], &[(":a", &1), (":c", &2)], &[(":a", &1), (":b", &2), (":c", &3)]]
        {
            assert!(matches!(ordered(wrong), Err(PostgresError::Broken(_))));
        }
    }
}
