//! One table of a file, key by key: a mistake in one key hides none of the others, and all are reported in one style.

use std::path::PathBuf;
use std::sync::Arc;

use quell_model::CpuCount;
use quell_model::suggest::unknown;
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::{Place, Problems};

/// One file's values, each with its place.
pub(super) struct Source<'a> {
    pub path: Arc<PathBuf>,
    pub text: &'a str,
    pub values: DeTable<'a>,
}

impl Source<'_> {
    /// The place of a byte of the file.
    pub fn at(&self, byte: usize) -> Place {
        Place::at(&self.path, self.text, byte)
    }
}

/// The kind of value that a key takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Text,
    Number,
    /// A number of CPUs: a number, or thousandths as Kubernetes writes them, "500m".
    Cpus,
    Switch,
    Table,
    /// The reader of the value reports its faults.
    Any,
}

/// A key that a table has.
#[derive(Debug)]
pub(super) struct Key {
    pub name: &'static str,
    pub form: Form,
    /// An example to write, for messages.
    pub example: &'static str,
}

/// A key that a table has.
pub(super) const fn key(name: &'static str, form: Form, example: &'static str) -> Key {
    Key { name, form, example }
}

/// A table whose keys are read one by one.
pub(super) struct Keys<'s, 'a> {
    pub source: &'s Source<'a>,
    table: &'s DeTable<'a>,
    known: &'static [Key],
}

impl<'s, 'a> Keys<'s, 'a> {
    /// Opens a table; keys that it does not have are problems.
    pub fn of(
        source: &'s Source<'a>,
        title: &str,
        table: &'s DeTable<'a>,
        known: &'static [Key],
        problems: &mut Problems,
    ) -> Keys<'s, 'a> {
        let names: Vec<&str> = known.iter().map(|key| key.name).collect();
        for (key, _) in table.iter().filter(|(key, _)| !names.contains(&&**key.get_ref())) {
            let what = unknown(&format!("{title} key"), key.get_ref(), &names);
            problems.error(&source.at(key.span().start), what);
        }
        Keys { source, table, known }
    }

    /// A value in its raw form.
    pub fn raw(&self, name: &str) -> Option<&'s Spanned<DeValue<'a>>> {
        self.table.get(name)
    }

    /// A key's value and its place; None if it is missing, or wrong, which is a problem then.
    pub fn take<T: DeserializeOwned>(&self, name: &str, problems: &mut Problems) -> Option<(T, usize)> {
        let key = self.known.iter().find(|key| key.name == name)?;
        let value = self.raw(name)?;
        let byte = value.span().start;
        if !has_form(value.get_ref(), key.form) {
            problems.error(&self.source.at(byte), wrong_form(key, value.get_ref()));
            return None;
        }
        match T::deserialize(ValueDeserializer::from(value.clone())) {
            Ok(read) => Some((read, byte)),
            Err(error) => {
                let byte = error.span().map_or(byte, |span| span.start);
                problems.error(&self.source.at(byte), wrong_value(key, value.get_ref(), error.message()));
                None
            }
        }
    }

    /// A number of CPUs, and its place.
    pub fn cpus(&self, name: &str, problems: &mut Problems) -> Option<(CpuCount, usize)> {
        let value = self.raw(name)?;
        match value.get_ref() {
            DeValue::String(text) if text.ends_with('m') => match text.parse() {
                Ok(cpus) => Some((cpus, value.span().start)),
                Err(what) => {
                    problems.error(&self.source.at(value.span().start), format!("{name}: {what}"));
                    None
                }
            },
            _ => self.take(name, problems),
        }
    }

    /// An example value for a key.
    pub fn example(&self, name: &str) -> &'static str {
        self.known.iter().find(|key| key.name == name).map_or("…", |key| key.example)
    }

    /// A table within this one.
    pub fn inner(
        &self,
        name: &str,
        title: &str,
        known: &'static [Key],
        problems: &mut Problems,
    ) -> Option<(Keys<'s, 'a>, usize)> {
        let key = self.known.iter().find(|key| key.name == name)?;
        let value = self.raw(name)?;
        let byte = value.span().start;
        match value.get_ref() {
            DeValue::Table(table) => Some((Keys::of(self.source, title, table, known, problems), byte)),
            other => {
                problems.error(&self.source.at(byte), wrong_form(key, other));
                None
            }
        }
    }
}

fn has_form(value: &DeValue, form: Form) -> bool {
    match form {
        Form::Text => value.is_str(),
        Form::Number | Form::Cpus => value.is_integer() || value.is_float(),
        Form::Switch => value.is_bool(),
        Form::Table => value.is_table(),
        Form::Any => true,
    }
}

/// Kind of a value, in words.
pub(super) fn kind(value: &DeValue) -> String {
    match value {
        DeValue::String(text) => format!("the text \"{}\"", text.escape_debug()),
        DeValue::Integer(number) => format!("the number {number}"),
        DeValue::Float(number) => format!("the number {number}"),
        DeValue::Boolean(value) => value.to_string(),
        DeValue::Datetime(_) => "a date".into(),
        DeValue::Array(_) => "a list".into(),
        DeValue::Table(_) => "a table".into(),
    }
}

/// Names the present form and the right one: the same without quotes, where that is right.
pub(super) fn wrong_form(key: &Key, value: &DeValue) -> String {
    let meant = match (key.form, value) {
        (Form::Number | Form::Cpus, DeValue::String(text)) => {
            Some(text.trim().to_owned()).filter(|text| text.parse::<f64>().is_ok())
        }
        (Form::Switch, DeValue::String(text)) => {
            Some(text.trim().to_owned()).filter(|text| ["true", "false"].contains(&text.as_str()))
        }
        (Form::Text, DeValue::Integer(number)) if ["cpus", "name"].contains(&key.name) => Some(format!("\"{number}\"")),
        _ => None,
    };
    format!("{} is {}; write {} = {}", key.name, kind(value), key.name, meant.as_deref().unwrap_or(key.example))
}

fn wrong_value(key: &Key, value: &DeValue, message: &str) -> String {
    let message = one_line(message);
    if let (Some((_, known)), DeValue::String(text)) = (message.split_once(", expected "), value)
        && message.starts_with("unknown variant")
    {
        let known: Vec<&str> = known.split('\'').skip(1).step_by(2).collect();
        return unknown(key.name, text, &known);
    }
    if message.starts_with("invalid type") || message.starts_with("invalid value") {
        return wrong_form(key, value);
    }
    message
}

pub(super) fn one_line(message: &str) -> String {
    message.trim().replace('\n', ", ").replace('`', "'")
}
