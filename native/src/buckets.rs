//! Time buckets: partition columns generated from a time column, and the conditions that follow from ranges of time.

use serde_json::Value as Json;

use crate::calendar::{checked_days, date_of, month_length, parse_date, DAY};
use crate::expression::{Expr, Op};
use crate::predicate::position;
use crate::schema::{Column, Field, Schema, Type};
use crate::values::{Kind, Val};

const HOUR: i64 = 3_600_000_000;
const EXPRESSIONS: &str = include_str!("../../docs/spec/vectors/bucket_expressions.json");

#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub enum Grain {
    Month,
    Day,
    Hour,
    Minute,
    Second,
}

impl Grain {
    pub fn parse(text: &str) -> Option<Grain> {
        Some(match text {
            "month" => Grain::Month,
            "day" => Grain::Day,
            "hour" => Grain::Hour,
            "minute" => Grain::Minute,
            "second" => Grain::Second,
            _ => return None,
        })
    }

    fn digits(self) -> usize {
        6 + 2 * self as usize
    }

    fn micros(self) -> i64 {
        [0, DAY, HOUR, 60_000_000, 1_000_000][self as usize]
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Form {
    Text { grain: Grain, exact: bool },
    Date,
    Units,
}

/// A bucket: the time column, and the partition columns that form it.
#[derive(Clone, Debug, PartialEq)]
pub struct Bucket {
    pub time: Column,
    pub columns: Vec<Column>,
    pub form: Form,
}

impl Bucket {
    fn slack(&self) -> i64 {
        if self.time.kind == Some(Kind::TimestampNtz) { 36 * HOUR } else { 18 * HOUR }
    }

    /// The time that rows with these values can have: start, and end (excluded). None: no interval.
    pub fn interval(&self, values: &[Val<'_>]) -> Option<(i64, i64)> {
        match &self.form {
            Form::Text { grain, exact } => match values {
                [Val::Bytes(text)] => text_interval(std::str::from_utf8(text).ok()?, *grain, *exact),
                _ => None,
            },
            Form::Date => match values {
                [Val::Int(day)] => {
                    let start = day.checked_mul(DAY)?;
                    Some((start.saturating_sub(self.slack()), start.saturating_add(DAY + self.slack())))
                }
                _ => None,
            },
            Form::Units => {
                let units: Option<Vec<i64>> = values.iter().map(|v| if let Val::Int(v) = v { Some(*v) } else { None }).collect();
                let (start, end) = unit_interval(&units?)?;
                Some((start.saturating_sub(self.slack()), end.saturating_add(self.slack())))
            }
        }
    }

    /// Whether a file contradicts its bucket. Values: None null; an unreadable value is given as `Err`.
    pub fn is_contradicted(&self, values: &[Result<Option<Val<'_>>, ()>], min: Option<i64>, max: Option<i64>, nulls: Option<i64>) -> bool {
        let known = min.is_some() || max.is_some();
        if values.iter().any(|value| matches!(value, Ok(None))) {
            return known;
        }
        let Ok(values) = values.iter().cloned().collect::<Result<Vec<_>, ()>>() else {
            return true;
        };
        if nulls.is_some_and(|nulls| nulls > 0) {
            return true;
        }
        let values: Vec<Val<'_>> = values.into_iter().flatten().collect();
        let Some((start, end)) = self.interval(&values) else {
            return true;
        };
        [min, max].into_iter().flatten().any(|t| t < start || t > end || (t == end && end > 0))
    }
}

fn text_interval(text: &str, grain: Grain, exact: bool) -> Option<(i64, i64)> {
    if text.starts_with(['+', '-']) {
        return Some((i64::MIN, i64::MAX));
    }
    if text.len() != grain.digits() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let two = |at: usize| text[at..at + 2].parse::<i64>().unwrap_or(99);
    let year = text[..4].parse::<i64>().ok()?;
    let month = two(4);
    let day = if grain == Grain::Month { 1 } else { two(6) };
    let days = checked_days(year, month, day)?;
    let mut start = days * DAY;
    for (grain_of, at, most, size) in [(Grain::Hour, 8, 23, HOUR), (Grain::Minute, 10, 59, 60_000_000), (Grain::Second, 12, 59, 1_000_000)] {
        if grain >= grain_of {
            if two(at) > most {
                return None;
            }
            start += two(at) * size;
        }
    }
    let end = if grain == Grain::Month { start + month_length(year, month) * DAY } else { start + grain.micros() };
    if !exact {
        let skipped = skipped_days();
        let begin = if start <= 0 { start - 1_000_000 } else { start };
        start = match () {
            _ if skipped.contains(&(days - 2)) => begin - 2 * DAY,
            _ if skipped.contains(&(days - 1)) => begin - DAY,
            _ => begin,
        };
    }
    Some((start, end))
}

fn unit_interval(units: &[i64]) -> Option<(i64, i64)> {
    let year = *units.first()?;
    if !(-290_000..=290_000).contains(&year) {
        return Some((i64::MIN, i64::MAX));
    }
    let of = |year: i64, month: i64| checked_days(year, month, 1)?.checked_mul(DAY);
    match units {
        [_] => Some((of(year, 1)?, of(year + 1, 1)?)),
        [_, month] => {
            let start = of(year, *month)?;
            Some((start, start.saturating_add(month_length(year, *month) * DAY)))
        }
        [_, month, day, rest @ ..] => {
            let start = checked_days(year, *month, *day)?.checked_mul(DAY)?;
            match rest {
                [] => Some((start, start.saturating_add(DAY))),
                [hour] if (0..24).contains(hour) => {
                    let start = start.saturating_add(hour * HOUR);
                    Some((start, start.saturating_add(HOUR)))
                }
                _ => None,
            }
        }
        [] => None,
    }
}

fn vectors() -> Json {
    serde_json::from_str(EXPRESSIONS).unwrap_or_default()
}

fn skipped_days() -> Vec<i64> {
    static DAYS: std::sync::OnceLock<Vec<i64>> = std::sync::OnceLock::new();
    DAYS.get_or_init(|| {
        let json = vectors();
        let days = json["skipped_days"].as_array().cloned().unwrap_or_default();
        days.iter().filter_map(|day| parse_date(day.as_str()?)).collect()
    })
    .clone()
}

// The buckets of a schema.

pub fn buckets_of(schema: &Schema) -> Vec<Bucket> {
    if !schema.has_generated {
        return Vec::new();
    }
    let generated: Vec<(&Field, Vec<String>)> = schema
        .fields
        .iter()
        .filter(|field| schema.partition_columns.contains(&field.name))
        .filter_map(|field| Some((field, tokens(field.generation.as_ref()?))))
        .collect();
    if generated.is_empty() {
        return Vec::new();
    }
    let mut times = Vec::new();
    time_columns(&schema.fields, &mut Vec::new(), &mut times);
    let mut found = Vec::new();
    for names in &times {
        let Ok(time) = schema.column(names) else { continue };
        let spelled = names.iter().map(|name| name.to_lowercase()).collect::<Vec<_>>();
        found.extend(buckets_by(schema, &time, &spelled, &generated));
    }
    found
}

fn time_columns(fields: &[Field], above: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
    for field in fields {
        above.push(field.name.clone());
        match &field.ty {
            Type::Plain(kind) if kind.is_time() => found.push(above.clone()),
            Type::Struct(inner) => time_columns(inner, above, found),
            _ => {}
        }
        above.pop();
    }
}

fn buckets_by(schema: &Schema, time: &Column, names: &[String], generated: &[(&Field, Vec<String>)]) -> Vec<Bucket> {
    let mut spelled = Vec::new();
    for (at, name) in names.iter().enumerate() {
        if at > 0 {
            spelled.push(".".to_string());
        }
        spelled.push(name.clone());
    }
    let filled = |template: &str| -> Vec<String> {
        tokens(&template.replace("{t}", "\u{1}")).into_iter().flat_map(|token| if token == "\u{1}" { spelled.clone() } else { vec![token] }).collect()
    };
    let column = |field: &Field| schema.column(std::slice::from_ref(&field.name)).ok();
    let of_kind = |field: &Field, kind: Kind| field.ty == Type::Plain(kind);
    let mut found = Vec::new();
    let json = vectors();
    let kind_name = time.kind.map(Kind::name).unwrap_or_default();
    for (field, expression) in generated {
        if of_kind(field, Kind::String) {
            for case in json["cases"].as_array().into_iter().flatten().filter(|case| case["time_type"] == kind_name.as_str()) {
                let grain = case["granularity"].as_str().and_then(Grain::parse);
                let template = case["expression"].as_str().unwrap_or_default();
                if let (Some(grain), Some(column), true) = (grain, column(field), *expression == filled(template)) {
                    let form = Form::Text { grain, exact: case["exact"] == true };
                    found.push(Bucket { time: time.clone(), columns: vec![column], form });
                    break;
                }
            }
        }
        if of_kind(field, Kind::Date) && ["CAST({t} AS DATE)", "to_date({t})", "date({t})"].iter().any(|form| *expression == filled(form)) {
            found.extend(column(field).map(|column| Bucket { time: time.clone(), columns: vec![column], form: Form::Date }));
        }
    }
    let unit = |forms: &[&str]| {
        let mut fields = generated.iter().filter(|(field, expression)| of_kind(field, Kind::Integer) && forms.iter().any(|form| *expression == filled(form)));
        fields.next().and_then(|(field, _)| column(field))
    };
    let forms: [&[&str]; 4] = [&["year({t})"], &["month({t})"], &["day({t})", "dayofmonth({t})"], &["hour({t})"]];
    let columns: Vec<Column> = forms.iter().map_while(|forms| unit(forms)).collect();
    if !columns.is_empty() {
        found.push(Bucket { time: time.clone(), columns, form: Form::Units });
    }
    found
}

/// The tokens of an SQL expression: letters outside literals in lower case, names without backticks.
fn tokens(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let chars: Vec<char> = text.chars().collect();
    let mut at = 0;
    while at < chars.len() {
        let c = chars[at];
        if c.is_whitespace() {
            at += 1;
            continue;
        }
        let start = at;
        if c == '\'' || c == '`' {
            at += 1;
            while at < chars.len() && chars[at] != c {
                at += 1;
            }
            at = (at + 1).min(chars.len());
            let whole: String = chars[start..at].iter().collect();
            found.push(if c == '`' { whole.trim_matches('`').to_lowercase() } else { whole });
            continue;
        }
        at += 1;
        if c.is_alphanumeric() || c == '_' {
            while at < chars.len() && (chars[at].is_alphanumeric() || chars[at] == '_') {
                at += 1;
            }
        }
        found.push(chars[start..at].iter().collect::<String>().to_lowercase());
    }
    found
}

// Conditions that follow.

/// What follows from a predicate for the columns of the buckets; None if nothing does.
pub fn derived(expr: &Expr, buckets: &[Bucket], columns: &mut Vec<Column>) -> Option<Expr> {
    match expr {
        Expr::And(terms) => {
            let found: Vec<Expr> = terms.iter().filter_map(|term| derived(term, buckets, columns)).collect();
            (!found.is_empty()).then_some(Expr::And(found))
        }
        Expr::Or(terms) => {
            let found: Option<Vec<Expr>> = terms.iter().map(|term| derived(term, buckets, columns)).collect();
            found.map(Expr::Or)
        }
        Expr::Constant(Some(false)) | Expr::Constant(None) => Some(expr.clone()),
        Expr::Compare(column, op, Val::Int(t)) => over(*column, buckets, columns, |bucket, columns| bounded(bucket, *op, *t, columns)),
        Expr::In(column, values) => over(*column, buckets, columns, |bucket, columns| {
            let each: Option<Vec<Expr>> = values
                .iter()
                .map(|value| match value {
                    Val::Int(t) => bounded(bucket, Op::Eq, *t, columns),
                    _ => None,
                })
                .collect();
            each.map(Expr::Or)
        }),
        Expr::IsNull(column) => over(*column, buckets, columns, |bucket, columns| {
            Some(Expr::And(bucket.columns.iter().map(|c| Expr::IsNull(position(c.clone(), columns))).collect()))
        }),
        _ => None,
    }
}

fn over(
    column: usize,
    buckets: &[Bucket],
    columns: &mut Vec<Column>,
    mut condition: impl FnMut(&Bucket, &mut Vec<Column>) -> Option<Expr>,
) -> Option<Expr> {
    let time = columns[column].physical.clone();
    let found: Vec<Expr> = buckets.iter().filter(|b| b.time.physical == time).filter_map(|b| condition(b, columns)).collect();
    (!found.is_empty()).then_some(Expr::And(found))
}

fn bounded(bucket: &Bucket, op: Op, t: i64, columns: &mut Vec<Column>) -> Option<Expr> {
    let lower = |t: i64, columns: &mut Vec<Column>| edge(bucket, t, true, columns);
    let upper = |t: i64, columns: &mut Vec<Column>| edge(bucket, t, false, columns);
    match op {
        Op::Eq => {
            let both: Vec<Expr> = [lower(t, columns), upper(t, columns)].into_iter().flatten().collect();
            (!both.is_empty()).then_some(Expr::And(both))
        }
        Op::Gt => lower(t.checked_add(1)?, columns),
        Op::Ge => lower(t, columns),
        Op::Lt => upper(t.checked_sub(1)?, columns),
        Op::Le => upper(t, columns),
        Op::Ne => None,
    }
}

fn edge(bucket: &Bucket, t: i64, is_lower: bool, columns: &mut Vec<Column>) -> Option<Expr> {
    let mut at: Vec<usize> = Vec::new();
    for column in &bucket.columns {
        at.push(position(column.clone(), columns));
    }
    let op = if is_lower { Op::Ge } else { Op::Le };
    match bucket.form {
        Form::Text { grain, exact } => {
            let t = if exact || is_lower { t } else { rounded_up(t, grain)? };
            let text = bucket_text(t, grain)?;
            let value = |text: &str| Val::Bytes(text.as_bytes().to_vec().into());
            let compared = Expr::Compare(at[0], op, value(&text));
            Some(if is_lower { Expr::Or(vec![compared, Expr::Compare(at[0], Op::Lt, value("0"))]) } else { compared })
        }
        Form::Date => {
            let t = if is_lower { t.checked_sub(bucket.slack())? } else { t.checked_add(bucket.slack())? };
            Some(Expr::Compare(at[0], op, Val::Int(t.div_euclid(DAY))))
        }
        Form::Units => {
            let t = if is_lower { t.checked_sub(bucket.slack())? } else { t.checked_add(bucket.slack())? };
            let (year, month, day) = date_of(t.div_euclid(DAY));
            let units = [year, month, day, t.rem_euclid(DAY) / HOUR];
            Some(tuple(&at, &units[..at.len()], is_lower))
        }
    }
}

/// What an inexact expression may have made of times up to `t`: it rounds seconds before 1970 up, and days that a
/// zone skipped become later ones.
fn rounded_up(t: i64, _grain: Grain) -> Option<i64> {
    let t = if t < 0 { t.checked_add(999_999)? } else { t };
    let (day, skipped) = (t.div_euclid(DAY), skipped_days());
    let mut last = t;
    for gone in [day - 1, day] {
        if skipped.contains(&gone) {
            let mut after = gone + 1;
            while skipped.contains(&after) {
                after += 1;
            }
            last = last.max((after + 1) * DAY - 1);
        }
    }
    Some(last)
}

fn bucket_text(t: i64, grain: Grain) -> Option<String> {
    let (year, month, day) = date_of(t.div_euclid(DAY));
    if !(0..=9999).contains(&year) {
        return None;
    }
    let seconds = t.rem_euclid(DAY) / 1_000_000;
    let whole = format!("{year:04}{month:02}{day:02}{:02}{:02}{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    Some(whole[..grain.digits()].to_string())
}

/// `(columns…) >= (units…)`, or `<=`, as tuples.
fn tuple(at: &[usize], units: &[i64], is_lower: bool) -> Expr {
    let (strict, loose) = if is_lower { (Op::Gt, Op::Ge) } else { (Op::Lt, Op::Le) };
    let compare = |op| Expr::Compare(at[0], op, Val::Int(units[0]));
    if at.len() == 1 {
        return compare(loose);
    }
    let rest = tuple(&at[1..], &units[1..], is_lower);
    Expr::Or(vec![compare(strict), Expr::And(vec![compare(Op::Eq), rest])])
}
