//! Types of columns and their values: from texts and from JSON, compared, converted and widened.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde_json::Value as Json;

use crate::calendar::{parse_date, parse_day, parse_moment, DAY};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Byte,
    Short,
    Integer,
    Long,
    Float,
    Double,
    Boolean,
    String,
    Binary,
    Date,
    Timestamp,
    TimestampNtz,
    Decimal(u32, u32),
}

impl Kind {
    pub fn parse(text: &str) -> Option<Kind> {
        Some(match text {
            "byte" => Kind::Byte,
            "short" => Kind::Short,
            "integer" => Kind::Integer,
            "long" => Kind::Long,
            "float" => Kind::Float,
            "double" => Kind::Double,
            "boolean" => Kind::Boolean,
            "string" => Kind::String,
            "binary" => Kind::Binary,
            "date" => Kind::Date,
            "timestamp" => Kind::Timestamp,
            "timestamp_ntz" => Kind::TimestampNtz,
            "decimal" => Kind::Decimal(10, 0),
            _ => {
                let inner = text.strip_prefix("decimal(")?.strip_suffix(')')?;
                let (p, s) = inner.split_once(',')?;
                let (p, s) = (p.trim().parse::<u32>().ok()?, s.trim().parse::<u32>().ok()?);
                if p == 0 || p > 38 || s > p {
                    return None;
                }
                Kind::Decimal(p, s)
            }
        })
    }

    pub fn name(self) -> String {
        match self {
            Kind::Decimal(p, s) => format!("decimal({p},{s})"),
            Kind::TimestampNtz => "timestamp_ntz".into(),
            other => format!("{other:?}").to_lowercase(),
        }
    }

    /// The least and the greatest value of an integer type.
    pub fn integer_range(self) -> Option<(i64, i64)> {
        Some(match self {
            Kind::Byte => (i8::MIN.into(), i8::MAX.into()),
            Kind::Short => (i16::MIN.into(), i16::MAX.into()),
            Kind::Integer => (i32::MIN.into(), i32::MAX.into()),
            Kind::Long => (i64::MIN, i64::MAX),
            _ => return None,
        })
    }

    pub fn is_floating(self) -> bool {
        matches!(self, Kind::Float | Kind::Double)
    }

    pub fn is_time(self) -> bool {
        matches!(self, Kind::Timestamp | Kind::TimestampNtz)
    }

    /// Whether bounds of a data column of this type are ever known.
    pub fn has_bounds(self) -> bool {
        !matches!(self, Kind::Boolean | Kind::Binary)
    }
}

/// A value of a column: integers, dates, times and booleans are `Int`, strings and binary `Bytes`, decimals unscaled.
#[derive(Clone, Debug, PartialEq)]
pub enum Val<'a> {
    Int(i64),
    Float(f64),
    Dec(i128),
    Bytes(Cow<'a, [u8]>),
}

impl Val<'_> {
    /// None where the two are not comparable: nothing follows from that.
    pub fn order(&self, other: &Val<'_>) -> Option<Ordering> {
        match (self, other) {
            (Val::Int(a), Val::Int(b)) => Some(a.cmp(b)),
            (Val::Float(a), Val::Float(b)) => a.partial_cmp(b),
            (Val::Dec(a), Val::Dec(b)) => Some(a.cmp(b)),
            (Val::Bytes(a), Val::Bytes(b)) => Some(a.cmp(b)),
            _ => None,
        }
    }

    pub fn owned(self) -> Val<'static> {
        match self {
            Val::Int(v) => Val::Int(v),
            Val::Float(v) => Val::Float(v),
            Val::Dec(v) => Val::Dec(v),
            Val::Bytes(v) => Val::Bytes(Cow::Owned(v.into_owned())),
        }
    }
}

pub fn text_val(text: &str) -> Val<'_> {
    Val::Bytes(Cow::Borrowed(text.as_bytes()))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Min,
    Max,
}

/// A decimal number of any size: digits without zeros at either end, times a power of ten.
#[derive(Clone, Debug)]
pub struct Exact {
    negative: bool,
    digits: Vec<u8>,
    exponent: i64,
}

impl Exact {
    /// `[+-]digits[.digits][e[+-]digits]`; `.5` and `5.` are numbers, `.` is not.
    pub fn parse(text: &str) -> Option<Exact> {
        let bytes = text.as_bytes();
        let (negative, mut at) = match bytes.first()? {
            b'-' => (true, 1),
            b'+' => (false, 1),
            _ => (false, 0),
        };
        let mut digits = Vec::new();
        let (mut point, mut any) = (None, false);
        while at < bytes.len() {
            match bytes[at] {
                b'0'..=b'9' => {
                    digits.push(bytes[at] - b'0');
                    any = true;
                }
                b'.' if point.is_none() => point = Some(digits.len()),
                _ => break,
            }
            at += 1;
        }
        if !any {
            return None;
        }
        let mut exponent = match at {
            _ if at == bytes.len() => 0i64,
            _ if matches!(bytes[at], b'e' | b'E') => exponent_of(&text[at + 1..])?,
            _ => return None,
        };
        exponent = exponent.saturating_sub(point.map_or(0, |p| (digits.len() - p) as i64));
        while digits.last() == Some(&0) {
            digits.pop();
            exponent = exponent.saturating_add(1);
        }
        let zeros = digits.iter().take_while(|&&d| d == 0).count();
        digits.drain(..zeros);
        Some(Exact { negative, digits, exponent })
    }

    /// The unscaled integer of scale `s`, and whether it is exact; rounded down, or up for a maximum.
    /// An `Err` tells on which side of every 38-digit number it lies.
    pub fn unscaled(&self, scale: u32, side: Side) -> std::result::Result<(i128, bool), Ordering> {
        let beyond = if self.negative { Ordering::Less } else { Ordering::Greater };
        if self.digits.is_empty() {
            return Ok((0, true));
        }
        let shift = self.exponent.saturating_add(i64::from(scale));
        let kept = (self.digits.len() as i64).saturating_add(shift.min(0)).max(0) as usize;
        if (kept as i64).saturating_add(shift.max(0)) > 38 {
            return Err(beyond);
        }
        let mut value = self.digits[..kept].iter().fold(0i128, |v, &d| v * 10 + i128::from(d));
        for _ in 0..shift.max(0) {
            value *= 10;
        }
        let exact = kept == self.digits.len();
        if !exact && (side == Side::Max) != self.negative {
            value += 1;
        }
        Ok((if self.negative { -value } else { value }, exact))
    }
}

fn exponent_of(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let far = i64::MAX / 4;
    let size = digits.parse::<i64>().unwrap_or(far).min(far);
    Some(if text.starts_with('-') { -size } else { size })
}

pub fn power_of_ten(exponent: u32) -> i128 {
    10i128.pow(exponent.min(38))
}

fn within(value: i128, precision: u32) -> bool {
    value.unsigned_abs() < power_of_ten(precision).unsigned_abs()
}

fn micros_in_range(micros: i128) -> Option<Val<'static>> {
    i64::try_from(micros).ok().map(Val::Int)
}

/// A bound as the JSON of `add.stats` has it, not widened; None is unknown.
pub fn bound_from_json<'a>(json: &'a Json, kind: Kind, side: Side) -> Option<Val<'a>> {
    match (kind, json) {
        (Kind::Byte | Kind::Short | Kind::Integer | Kind::Long, Json::Number(n)) => {
            n.as_str().parse::<i64>().ok().map(Val::Int)
        }
        (Kind::Float | Kind::Double, Json::Number(n)) => {
            n.as_str().parse::<f64>().ok().filter(|v| v.is_finite()).map(Val::Float)
        }
        (Kind::Float | Kind::Double, Json::String(s)) => match s.as_str() {
            "Infinity" | "+Infinity" => Some(Val::Float(f64::INFINITY)),
            "-Infinity" => Some(Val::Float(f64::NEG_INFINITY)),
            _ => None,
        },
        (Kind::Decimal(p, s), Json::Number(n)) => decimal_bound(n.as_str(), p, s, side),
        (Kind::Decimal(p, s), Json::String(text)) => decimal_bound(text, p, s, side),
        (Kind::String, Json::String(s)) => Some(text_val(s)),
        (Kind::Date, Json::String(s)) => parse_date(s).map(Val::Int),
        (Kind::Timestamp, Json::String(s)) => {
            let moment = parse_moment(s)?;
            moment.zone?;
            micros_in_range(moment.micros)
        }
        (Kind::TimestampNtz, Json::String(s)) => {
            if let Some(days) = parse_day(s) {
                return days.checked_mul(DAY).map(Val::Int);
            }
            let moment = parse_moment(s)?;
            if moment.zone.unwrap_or(0) != 0 {
                return None;
            }
            micros_in_range(moment.micros)
        }
        _ => None,
    }
}

fn decimal_bound(text: &str, p: u32, s: u32, side: Side) -> Option<Val<'static>> {
    let (value, _) = Exact::parse(text)?.unscaled(s, side).ok()?;
    within(value, p).then_some(Val::Dec(value))
}

/// A count of the stats: a JSON integer of at least 0.
pub fn count_from_json(json: Option<&Json>) -> Option<i64> {
    match json? {
        Json::Number(n) => n.as_str().parse::<i64>().ok().filter(|&v| v >= 0),
        _ => None,
    }
}

/// A key value of a manifest.
pub fn key_value(json: &Json, kind: Kind) -> Option<Val<'static>> {
    match (kind, json) {
        (Kind::Float | Kind::Double, _) => bound_from_json(json, kind, Side::Min).map(Val::owned),
        (Kind::Decimal(_, s), Json::String(text)) => {
            let (unscaled, scale) = text.split_once("e-")?;
            (scale.parse::<u32>().ok()? == s).then(|| unscaled.parse::<i128>().ok().map(Val::Dec))?
        }
        (Kind::String, Json::String(s)) => Some(text_val(s).owned()),
        (Kind::Binary, Json::String(s)) => hexadecimal(s).map(|bytes| Val::Bytes(Cow::Owned(bytes))),
        (Kind::String | Kind::Binary | Kind::Decimal(..), _) => None,
        (_, Json::Number(n)) => n.as_str().parse::<i64>().ok().map(Val::Int),
        _ => None,
    }
}

fn hexadecimal(text: &str) -> Option<Vec<u8>> {
    let bytes = text.as_bytes();
    if bytes.len() % 2 != 0 {
        return None;
    }
    bytes.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

/// The typed value of a partition column.
#[derive(Clone, Debug, PartialEq)]
pub enum Partition<'a> {
    Value(Val<'a>),
    Null,
    Unreadable,
}

pub fn partition_value<'a>(text: Option<&'a str>, kind: Kind) -> Partition<'a> {
    match text {
        None | Some("") => Partition::Null,
        Some(text) => read_partition(text, kind).map_or(Partition::Unreadable, Partition::Value),
    }
}

fn read_partition<'a>(text: &'a str, kind: Kind) -> Option<Val<'a>> {
    match kind {
        Kind::String | Kind::Binary => Some(text_val(text)),
        Kind::Byte | Kind::Short | Kind::Integer | Kind::Long => {
            let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
            if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
                return None;
            }
            let (least, most) = kind.integer_range()?;
            text.parse::<i64>().ok().filter(|v| (least..=most).contains(v)).map(Val::Int)
        }
        Kind::Float | Kind::Double => {
            let value = match text {
                "Infinity" | "+Infinity" | "inf" => f64::INFINITY,
                "-Infinity" | "-inf" => f64::NEG_INFINITY,
                "NaN" | "nan" => f64::NAN,
                _ => {
                    Exact::parse(text)?;
                    if kind == Kind::Float {
                        f64::from(text.parse::<f32>().ok()?)
                    } else {
                        text.parse().ok()?
                    }
                }
            };
            Some(Val::Float(value))
        }
        Kind::Boolean => match () {
            _ if text.eq_ignore_ascii_case("true") => Some(Val::Int(1)),
            _ if text.eq_ignore_ascii_case("false") => Some(Val::Int(0)),
            _ => None,
        },
        Kind::Decimal(p, s) => {
            let (value, exact) = Exact::parse(text)?.unscaled(s, Side::Min).ok()?;
            (exact && within(value, p)).then_some(Val::Dec(value))
        }
        Kind::Date => parse_date(text).map(Val::Int),
        Kind::Timestamp | Kind::TimestampNtz => {
            if let Some(days) = parse_day(text) {
                return days.checked_mul(DAY).map(Val::Int);
            }
            let moment = parse_moment(text)?;
            if !moment.exact || (kind == Kind::TimestampNtz && moment.zone.unwrap_or(0) != 0) {
                return None;
            }
            micros_in_range(moment.micros)
        }
    }
}

/// Whether a value of one type is a value of another by the widenings.
pub fn widens(from: Kind, to: Kind) -> bool {
    use Kind::*;
    match (from, to) {
        _ if from == to => true,
        (Byte, Short | Integer | Long | Double) => true,
        (Short, Integer | Long | Double) => true,
        (Integer, Long | Double) => true,
        (Byte, Decimal(p, s)) => p - s >= 3,
        (Short, Decimal(p, s)) => p - s >= 5,
        (Integer, Decimal(p, s)) => p - s >= 10,
        (Long, Decimal(p, s)) => p - s >= 19,
        (Float, Double) => true,
        (Decimal(p, s), Decimal(q, t)) => t >= s && q - t >= p - s,
        (Date, TimestampNtz) => true,
        _ => false,
    }
}

/// A value as one of another type; None if it is unknown there.
pub fn convert<'a>(value: Val<'a>, from: Kind, to: Kind) -> Option<Val<'a>> {
    if from == to {
        return Some(value);
    }
    if !widens(from, to) {
        return None;
    }
    match (value, from, to) {
        (Val::Int(v), _, Kind::Double) => Some(Val::Float(v as f64)),
        (Val::Int(v), Kind::Date, Kind::TimestampNtz) => v.checked_mul(DAY).map(Val::Int),
        (Val::Int(v), _, Kind::Decimal(_, s)) => i128::from(v).checked_mul(power_of_ten(s)).map(Val::Dec),
        (Val::Dec(v), Kind::Decimal(_, s), Kind::Decimal(_, t)) => v.checked_mul(power_of_ten(t - s)).map(Val::Dec),
        (value, _, _) => Some(value),
    }
}

/// A bound of a data column as it is compared. `was_float`: of a double column that was a float.
pub fn widened<'a>(value: Val<'a>, kind: Kind, was_float: bool, side: Side) -> Option<Val<'a>> {
    match (value, kind) {
        (Val::Int(v), Kind::Timestamp | Kind::TimestampNtz) => Some(Val::Int(match side {
            Side::Min if v > 0 => v,
            Side::Min => v.saturating_sub(1000),
            Side::Max => v.saturating_add(1000),
        })),
        (Val::Float(v), _) if v.is_nan() => None,
        (Val::Float(v), Kind::Float) => {
            let f = f64::from(v as f32);
            (!f.is_infinite() || v.is_infinite()).then_some(Val::Float(f))
        }
        (Val::Float(v), Kind::Double) if was_float => {
            let f = v as f32;
            Some(Val::Float(match side {
                _ if f.is_infinite() => v,
                Side::Min => f64::from(next_float(f, false)),
                Side::Max => f64::from(next_float(f, true)),
            }))
        }
        (Val::Dec(u), Kind::Decimal(p, s)) if p > 15 => {
            let step = (u.unsigned_abs() >> 50) as i128 + 1;
            let most = power_of_ten(p) - 1;
            // Some writers write the end of the 64-bit integers for whatever is beyond it.
            let is_end = |end: i64| i128::from(end).checked_mul(power_of_ten(s)) == Some(u);
            Some(Val::Dec(match side {
                Side::Min if is_end(i64::MIN) => -most,
                Side::Max if is_end(i64::MAX) => most,
                Side::Min => u.saturating_sub(step).max(-most),
                Side::Max => u.saturating_add(step).min(most),
            }))
        }
        (value, _) => Some(value),
    }
}

pub fn next_float(f: f32, up: bool) -> f32 {
    if f == 0.0 {
        let least = f32::from_bits(1);
        return if up { least } else { -least };
    }
    let bits = f.to_bits();
    f32::from_bits(if (f > 0.0) == up { bits + 1 } else { bits - 1 })
}
