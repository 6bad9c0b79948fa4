//! Predicates as they are written, in SQL or as a JSON tree, and bound to the columns of a table.

use serde_json::Value as Json;

use crate::calendar::{checked_days, DAY};
use crate::error::{fail, shown, Code, Error, Result};
use crate::expression::{Expr, Op};
use crate::like::Pattern;
use crate::schema::{Column, Schema};
use crate::values::{next_float, power_of_ten, Exact, Kind, Side, Val};

const DEEPEST: usize = 100;

#[derive(Clone, Debug)]
pub enum Literal {
    Null,
    Text(String),
    Number(String),
    Boolean(bool),
    Day(i64),
    Instant { micros: i128, exact: bool },
}

/// A condition whose names and literals are not yet those of a table.
#[derive(Clone, Debug)]
pub enum Condition {
    Compare(Vec<String>, Op, Literal),
    In(Vec<String>, Vec<Literal>),
    IsNull(Vec<String>),
    Like(Vec<String>, String),
    Flag(Vec<String>),
    Constant(Option<bool>),
    Not(Box<Condition>),
    And(Vec<Condition>),
    Or(Vec<Condition>),
}

fn bad<T>(message: impl Into<String>) -> Result<T> {
    fail(Code::BadPredicate, message)
}

/// The condition of an option `predicate`: a string is SQL, an object a tree.
pub fn parse(json: &Json) -> Result<Condition> {
    match json {
        Json::String(text) => Sql::new(text)?.whole(),
        tree => condition_of(tree, 0),
    }
}

// JSON trees.

fn condition_of(tree: &Json, depth: usize) -> Result<Condition> {
    if depth > DEEPEST {
        return bad("the predicate is nested too deeply; use in with many values of one column");
    }
    let Some(object) = tree.as_object().filter(|object| !object.is_empty()) else {
        return bad("a predicate is SQL text, {\"column\": value}, {\"column\": name, \"op\": operator, \"value\": value}, {\"and\": […]}, {\"or\": […]} or {\"not\": {…}}");
    };
    if object.contains_key("column") && object.contains_key("op") {
        return comparison_of(object);
    }
    let terms = |list: &Vec<Json>| -> Result<Vec<Condition>> {
        if list.is_empty() {
            return bad("\"and\" and \"or\" need at least one condition");
        }
        list.iter().map(|term| condition_of(term, depth + 1)).collect()
    };
    if let Some(word) = object.get("op").and_then(Json::as_str) {
        // The form of the conformance corpus.
        match (word, object.get("terms"), object.get("term")) {
            ("and", Some(Json::Array(list)), None) if object.len() == 2 => return Ok(Condition::And(terms(list)?)),
            ("or", Some(Json::Array(list)), None) if object.len() == 2 => return Ok(Condition::Or(terms(list)?)),
            ("not", None, Some(term @ Json::Object(_))) if object.len() == 2 => {
                return Ok(Condition::Not(Box::new(condition_of(term, depth + 1)?)));
            }
            _ => {}
        }
    }
    if object.len() == 1 {
        match object.iter().next() {
            Some((word, Json::Array(list))) if word == "and" => return Ok(Condition::And(terms(list)?)),
            Some((word, Json::Array(list))) if word == "or" => return Ok(Condition::Or(terms(list)?)),
            Some((word, term @ Json::Object(_))) if word == "not" => {
                return Ok(Condition::Not(Box::new(condition_of(term, depth + 1)?)));
            }
            _ => {}
        }
    }
    let each = object.iter().map(|(name, value)| {
        let name = vec![name.clone()];
        Ok(match value {
            Json::Null => Condition::IsNull(name),
            Json::Array(_) => Condition::In(name, literals(value)?),
            value => Condition::Compare(name, Op::Eq, literal(value)?),
        })
    });
    Ok(Condition::And(each.collect::<Result<_>>()?))
}

fn comparison_of(object: &serde_json::Map<String, Json>) -> Result<Condition> {
    if let Some(key) = object.keys().find(|key| !["column", "op", "value", "values"].contains(&key.as_str())) {
        return bad(format!("a comparison has no field {}; it has column, op and value", shown(key)));
    }
    let name = match &object["column"] {
        Json::String(name) if !name.is_empty() => vec![name.clone()],
        Json::Array(parts) if !parts.is_empty() => {
            let names: Option<Vec<String>> = parts.iter().map(|p| p.as_str().filter(|p| !p.is_empty()).map(str::to_string)).collect();
            names.ok_or_else(|| Error::new(Code::BadPredicate, "a column is a name, or a list of names for one in a struct"))?
        }
        _ => return bad("a column is a name, or a list of names for one in a struct"),
    };
    let Some(word) = object["op"].as_str() else {
        return bad("the operator of a comparison is a string");
    };
    let word = word.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ");
    let value = match (object.get("value"), object.get("values")) {
        (Some(_), Some(_)) => return bad("a comparison has value or values, not both"),
        (value, values) => value.or(values),
    };
    let needed = || value.ok_or_else(|| Error::new(Code::BadPredicate, format!("the comparison with {} has no value", shown(&word))));
    let negated = |condition| Condition::Not(Box::new(condition));
    Ok(match word.as_str() {
        "is null" => Condition::IsNull(name),
        "is not null" => negated(Condition::IsNull(name)),
        "in" => Condition::In(name, literals(needed()?)?),
        "not in" => negated(Condition::In(name, literals(needed()?)?)),
        "like" | "not like" => {
            let Some(pattern) = needed()?.as_str() else {
                return bad("like needs a string");
            };
            let like = Condition::Like(name, pattern.to_string());
            if word == "like" { like } else { negated(like) }
        }
        "between" | "not between" => {
            let Some([low, high]) = needed()?.as_array().map(Vec::as_slice) else {
                return bad("between needs a list of two values");
            };
            let both = between(name, literal(low)?, literal(high)?);
            if word == "between" { both } else { negated(both) }
        }
        sign => match operator(sign) {
            Some(op) => Condition::Compare(name, op, literal(needed()?)?),
            None => return bad(format!("the operator {} is not supported; use =, !=, <, <=, >, >=, in, not in, like, not like, between, not between, is null, is not null", shown(sign))),
        },
    })
}

fn between(name: Vec<String>, low: Literal, high: Literal) -> Condition {
    Condition::And(vec![Condition::Compare(name.clone(), Op::Ge, low), Condition::Compare(name, Op::Le, high)])
}

fn operator(sign: &str) -> Option<Op> {
    Some(match sign {
        "=" | "==" => Op::Eq,
        "!=" | "<>" => Op::Ne,
        "<" => Op::Lt,
        "<=" => Op::Le,
        ">" => Op::Gt,
        ">=" => Op::Ge,
        _ => return None,
    })
}

fn literals(json: &Json) -> Result<Vec<Literal>> {
    match json.as_array() {
        Some(list) if !list.is_empty() => list.iter().map(literal).collect(),
        _ => bad("in needs a list of at least one value"),
    }
}

fn literal(json: &Json) -> Result<Literal> {
    Ok(match json {
        Json::Null => Literal::Null,
        Json::Bool(value) => Literal::Boolean(*value),
        Json::Number(number) => Literal::Number(number.as_str().to_string()),
        Json::String(text) => Literal::Text(text.clone()),
        _ => return bad("a value is a string, a number, true, false or null"),
    })
}

// SQL.

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    Name(String),
    Text(String),
    Number(String),
    Sign(&'static str),
    End,
}

const SIGNS: [&str; 17] = ["<=>", "<=", ">=", "<>", "!=", "==", "::", "||", "=", "<", ">", "(", ")", ",", ".", "-", "+"];
const RESERVED: [&str; 7] = ["AND", "OR", "NOT", "IN", "IS", "LIKE", "BETWEEN"];
const SUPPORTED: &str = "supported: a column and a literal compared by =, !=, <, <=, >, >=; IN, BETWEEN, LIKE, IS [NOT] NULL, AND, OR, NOT, DATE '…', TIMESTAMP '…'";

struct Sql {
    tokens: Vec<(Token, usize)>,
    at: usize,
    depth: usize,
}

enum Operand {
    Column(Vec<String>),
    Literal(Literal),
}

impl Sql {
    fn new(text: &str) -> Result<Sql> {
        Ok(Sql { tokens: tokens_of(text)?, at: 0, depth: 0 })
    }

    fn next(&self) -> &Token {
        &self.tokens[self.at].0
    }

    fn take(&mut self) -> Token {
        let token = self.tokens[self.at].0.clone();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    fn is_word(&self, ahead: usize, word: &str) -> bool {
        matches!(self.tokens.get(self.at + ahead), Some((Token::Word(found), _)) if found.eq_ignore_ascii_case(word))
    }

    fn if_word(&mut self, word: &str) -> bool {
        let found = self.is_word(0, word);
        self.at += usize::from(found);
        found
    }

    fn if_sign(&mut self, sign: &str) -> bool {
        let found = matches!(self.next(), Token::Sign(s) if *s == sign);
        self.at += usize::from(found);
        found
    }

    fn unexpected<T>(&self) -> Result<T> {
        let what = match self.next() {
            Token::End => "the end of the predicate".to_string(),
            Token::Word(text) | Token::Name(text) | Token::Text(text) | Token::Number(text) => shown(text),
            Token::Sign(sign) => shown(sign),
        };
        bad(format!("{what} is not expected at character {}; {SUPPORTED}", self.tokens[self.at].1 + 1))
    }

    fn whole(mut self) -> Result<Condition> {
        if *self.next() == Token::End {
            return bad("the predicate is empty; leave it out to match everything");
        }
        let condition = self.either()?;
        if *self.next() == Token::End { Ok(condition) } else { self.unexpected() }
    }

    fn either(&mut self) -> Result<Condition> {
        let mut terms = vec![self.both()?];
        while self.if_word("OR") {
            terms.push(self.both()?);
        }
        Ok(if terms.len() == 1 { terms.remove(0) } else { Condition::Or(terms) })
    }

    fn both(&mut self) -> Result<Condition> {
        let mut terms = vec![self.negated()?];
        while self.if_word("AND") {
            terms.push(self.negated()?);
        }
        Ok(if terms.len() == 1 { terms.remove(0) } else { Condition::And(terms) })
    }

    fn negated(&mut self) -> Result<Condition> {
        let mut negations = 0;
        while self.if_word("NOT") {
            negations += 1;
        }
        let condition = self.condition()?;
        Ok(if negations % 2 == 1 { Condition::Not(Box::new(condition)) } else { condition })
    }

    fn condition(&mut self) -> Result<Condition> {
        if self.if_sign("(") {
            self.depth += 1;
            if self.depth > DEEPEST {
                return bad("the predicate is nested too deeply; use IN (…) for many values of one column");
            }
            let inner = self.either()?;
            self.depth -= 1;
            return if self.if_sign(")") { Ok(inner) } else { self.unexpected() };
        }
        let left = self.operand()?;
        if let Token::Sign(sign) = self.next() {
            if let Some(op) = operator(sign) {
                self.take();
                let right = self.operand()?;
                return match (left, right) {
                    (Operand::Column(name), Operand::Literal(value)) => Ok(Condition::Compare(name, op, value)),
                    (Operand::Literal(value), Operand::Column(name)) => Ok(Condition::Compare(name, op.mirrored(), value)),
                    _ => bad(format!("a comparison needs a column on one side and a literal on the other; {SUPPORTED}")),
                };
            }
        }
        match left {
            Operand::Column(name) => self.suffixed(name),
            Operand::Literal(Literal::Boolean(value)) => Ok(Condition::Constant(Some(value))),
            Operand::Literal(Literal::Null) => Ok(Condition::Constant(None)),
            Operand::Literal(_) => self.unexpected(),
        }
    }

    fn suffixed(&mut self, name: Vec<String>) -> Result<Condition> {
        if self.if_word("IS") {
            let negative = self.if_word("NOT");
            if !self.if_word("NULL") {
                return self.unexpected();
            }
            let null = Condition::IsNull(name);
            return Ok(if negative { Condition::Not(Box::new(null)) } else { null });
        }
        let negative = self.is_word(0, "NOT");
        let word = ["IN", "BETWEEN", "LIKE"].into_iter().find(|word| self.is_word(usize::from(negative), word));
        let Some(word) = word else {
            return if negative { self.unexpected() } else { Ok(Condition::Flag(name)) };
        };
        self.at += 1 + usize::from(negative);
        let condition = match word {
            "IN" => Condition::In(name, self.options()?),
            "BETWEEN" => {
                let low = self.literal()?;
                if !self.if_word("AND") {
                    return self.unexpected();
                }
                between(name, low, self.literal()?)
            }
            _ => match self.take() {
                Token::Text(pattern) => Condition::Like(name, pattern),
                _ => {
                    self.at -= 1;
                    return self.unexpected();
                }
            },
        };
        Ok(if negative { Condition::Not(Box::new(condition)) } else { condition })
    }

    fn options(&mut self) -> Result<Vec<Literal>> {
        if !self.if_sign("(") {
            return self.unexpected();
        }
        let mut found = vec![self.literal()?];
        while self.if_sign(",") {
            found.push(self.literal()?);
        }
        if self.if_sign(")") { Ok(found) } else { self.unexpected() }
    }

    fn literal(&mut self) -> Result<Literal> {
        let at = self.at;
        match self.operand()? {
            Operand::Literal(literal) => Ok(literal),
            Operand::Column(_) => {
                self.at = at;
                self.unexpected()
            }
        }
    }

    fn operand(&mut self) -> Result<Operand> {
        let mut negative = false;
        let mut signed = false;
        while let Token::Sign(sign @ ("-" | "+")) = self.next() {
            negative ^= *sign == "-";
            signed = true;
            self.at += 1;
        }
        let text = match self.next().clone() {
            Token::Number(text) => {
                self.at += 1;
                return Ok(Operand::Literal(Literal::Number(if negative { format!("-{text}") } else { text })));
            }
            _ if signed => return self.unexpected(),
            Token::Text(text) => {
                self.at += 1;
                return Ok(Operand::Literal(Literal::Text(text)));
            }
            Token::Name(text) => text,
            Token::Word(text) => match text.to_uppercase().as_str() {
                word if RESERVED.contains(&word) => return self.unexpected(),
                "NULL" => return self.constant(Literal::Null),
                "TRUE" => return self.constant(Literal::Boolean(true)),
                "FALSE" => return self.constant(Literal::Boolean(false)),
                word @ ("DATE" | "TIMESTAMP") => match self.tokens.get(self.at + 1) {
                    Some((Token::Text(inner), _)) => {
                        let read = typed_literal(word, inner)?;
                        self.at += 2;
                        return Ok(Operand::Literal(read));
                    }
                    _ => text,
                },
                _ => text,
            },
            _ => return self.unexpected(),
        };
        self.at += 1;
        let mut names = vec![text];
        while self.if_sign(".") {
            match self.take() {
                Token::Word(text) | Token::Name(text) => names.push(text),
                _ => {
                    self.at -= 1;
                    return self.unexpected();
                }
            }
        }
        if matches!(self.next(), Token::Sign("(")) {
            return bad(format!("the function {} is not supported; {SUPPORTED}", shown(&names.join("."))));
        }
        Ok(Operand::Column(names))
    }

    fn constant(&mut self, literal: Literal) -> Result<Operand> {
        self.at += 1;
        Ok(Operand::Literal(literal))
    }
}

fn typed_literal(word: &str, text: &str) -> Result<Literal> {
    match (word, parse_instant(text)?) {
        ("DATE", Literal::Instant { micros, .. }) => Ok(Literal::Day(micros.div_euclid(DAY.into()) as i64)),
        ("TIMESTAMP", Literal::Day(days)) => Ok(Literal::Instant { micros: i128::from(days) * i128::from(DAY), exact: true }),
        (_, literal) => Ok(literal),
    }
}

fn tokens_of(text: &str) -> Result<Vec<(Token, usize)>> {
    let mut tokens = Vec::new();
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        let c = text[at..].chars().next().unwrap_or(' ');
        if c.is_whitespace() {
            at += c.len_utf8();
            continue;
        }
        let token = match c {
            '\'' | '"' | '`' => {
                let (inner, end) = quoted(text, at, c)?;
                at = end;
                if c == '\'' { Token::Text(inner) } else { Token::Name(inner) }
            }
            _ if c.is_ascii_digit() || (c == '.' && bytes.get(at + 1).is_some_and(u8::is_ascii_digit)) => {
                at = number_end(bytes, at);
                Token::Number(text[start..at].to_string())
            }
            _ if c.is_alphanumeric() || c == '_' || c == '$' || !c.is_ascii() => {
                let length = text[at..].find(|c: char| c.is_ascii() && !c.is_ascii_alphanumeric() && c != '_' && c != '$' || c.is_whitespace());
                at = length.map_or(text.len(), |length| at + length);
                Token::Word(text[start..at].to_string())
            }
            _ => match SIGNS.iter().find(|sign| text[at..].starts_with(**sign)) {
                Some(sign) => {
                    at += sign.len();
                    Token::Sign(sign)
                }
                None => return bad(format!("the predicate holds {} at character {}; {SUPPORTED}", shown(&c.to_string()), at + 1)),
            },
        };
        tokens.push((token, start));
    }
    tokens.push((Token::End, text.len()));
    Ok(tokens)
}

fn quoted(text: &str, start: usize, quote: char) -> Result<(String, usize)> {
    let mut inner = String::new();
    let mut rest = text[start + 1..].char_indices().peekable();
    while let Some((offset, c)) = rest.next() {
        if c != quote {
            inner.push(c);
        } else if rest.peek().is_some_and(|&(_, c)| c == quote) {
            inner.push(quote);
            rest.next();
        } else {
            return Ok((inner, start + 1 + offset + 1));
        }
    }
    bad(format!("the predicate has an unfinished text: the closing {quote} is missing, at character {}", start + 1))
}

fn number_end(bytes: &[u8], start: usize) -> usize {
    let digits = |mut at: usize| {
        while bytes.get(at).is_some_and(u8::is_ascii_digit) {
            at += 1;
        }
        at
    };
    let mut at = digits(start);
    if bytes.get(at) == Some(&b'.') {
        at = digits(at + 1);
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        if bytes.get(at + 1 + sign).is_some_and(u8::is_ascii_digit) {
            at = digits(at + 1 + sign);
        }
    }
    at
}

// Literals in the order of a column's values.

/// A date, or a date and time, as people write them: `2026`, `2026-02`, `2026-2-10 22:00`, `…T22:00:00.5+01:00`.
fn parse_instant(text: &str) -> Result<Literal> {
    read_instant(text.trim()).ok_or_else(|| {
        Error::new(Code::BadPredicate, format!("{} is not a date or timestamp; write it like '2026-02-10' or '2026-02-10T22:00:00.5+01:00'", shown(text)))
    })
}

fn read_instant(text: &str) -> Option<Literal> {
    let bytes = text.as_bytes();
    let mut at = 0;
    let run = |at: &mut usize, least: usize, most: usize| -> Option<i64> {
        let count = bytes[*at..].iter().take(most).take_while(|b| b.is_ascii_digit()).count();
        if count < least {
            return None;
        }
        let value = text[*at..*at + count].parse().ok()?;
        *at += count;
        Some(value)
    };
    let sign = match bytes.first()? {
        b'-' => -1,
        _ => 1,
    };
    at += usize::from(matches!(bytes[0], b'-' | b'+'));
    let year = sign * run(&mut at, 4, 6)?;
    let (mut month, mut day) = (1, 1);
    if bytes.get(at) == Some(&b'-') {
        at += 1;
        month = run(&mut at, 1, 2)?;
        if bytes.get(at) == Some(&b'-') {
            at += 1;
            day = run(&mut at, 1, 2)?;
        }
    }
    let days = checked_days(year, month, day)?;
    if at == bytes.len() {
        return Some(Literal::Day(days));
    }
    if !matches!(bytes[at], b'T' | b't' | b' ') {
        return None;
    }
    at += 1;
    let hour = run(&mut at, 1, 2)?;
    if bytes.get(at) != Some(&b':') {
        return None;
    }
    at += 1;
    let minute = run(&mut at, 1, 2)?;
    let (mut second, mut micros, mut exact) = (0, 0i64, true);
    if bytes.get(at) == Some(&b':') {
        at += 1;
        second = run(&mut at, 1, 2)?;
        if bytes.get(at) == Some(&b'.') {
            let digits: Vec<u8> = bytes[at + 1..].iter().copied().take_while(u8::is_ascii_digit).collect();
            at += 1 + digits.len();
            exact = digits.iter().skip(6).all(|&b| b == b'0');
            for place in 0..6 {
                micros = micros * 10 + digits.get(place).map_or(0, |b| i64::from(b - b'0'));
            }
        }
    }
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let offset = offset_of(text[at..].trim_start())?;
    let seconds = hour * 3600 + minute * 60 + second - offset;
    Some(Literal::Instant { micros: i128::from(days) * i128::from(DAY) + i128::from(seconds) * 1_000_000 + i128::from(micros), exact })
}

fn offset_of(zone: &str) -> Option<i64> {
    if zone.is_empty() || ["Z", "UTC", "GMT"].iter().any(|name| zone.eq_ignore_ascii_case(name)) {
        return Some(0);
    }
    let sign = match zone.as_bytes()[0] {
        b'-' => -1,
        b'+' => 1,
        _ => return None,
    };
    let digits = &zone[1..];
    let pieces: Vec<&str> = if digits.contains(':') {
        digits.split(':').collect()
    } else {
        match digits.len() {
            1 | 2 => vec![digits],
            3 => vec![&digits[..1], &digits[1..]],
            4 => vec![&digits[..2], &digits[2..]],
            6 => vec![&digits[..2], &digits[2..4], &digits[4..]],
            _ => return None,
        }
    };
    let mut seconds = 0;
    for (place, piece) in pieces.iter().enumerate() {
        let right = if place == 0 { (1..=2).contains(&piece.len()) } else { piece.len() == 2 };
        if !right || !piece.bytes().all(|b| b.is_ascii_digit()) || place > 2 {
            return None;
        }
        let value: i64 = piece.parse().ok()?;
        if value > if place == 0 { 18 } else { 59 } {
            return None;
        }
        seconds += value * [3600, 60, 1][place];
    }
    Some(sign * seconds)
}

/// Where a literal stands among the values of a type: at a value, or between it and the next one.
#[derive(Debug)]
enum Place {
    At(Val<'static>),
    Above(Val<'static>),
    BelowAll,
    /// NaN: neither above nor below anything.
    Nowhere,
    Null,
}

/// The predicate over the columns of a table. Columns are collected in `columns`.
pub fn bind(condition: &Condition, schema: &Schema, columns: &mut Vec<Column>) -> Result<Expr> {
    let mut all = |terms: &[Condition]| -> Result<Vec<Expr>> { terms.iter().map(|term| bind(term, schema, columns)).collect() };
    match condition {
        Condition::And(terms) => return Ok(Expr::And(all(terms)?)),
        Condition::Or(terms) => return Ok(Expr::Or(all(terms)?)),
        Condition::Not(term) => return Ok(Expr::Not(Box::new(bind(term, schema, columns)?))),
        Condition::Constant(value) => return Ok(Expr::Constant(*value)),
        _ => {}
    }
    let (Condition::Compare(name, ..) | Condition::In(name, _) | Condition::IsNull(name) | Condition::Like(name, _) | Condition::Flag(name)) = condition else {
        return bad("the predicate has a condition without a column");
    };
    let column = schema.column(name)?;
    let at = position(column.clone(), columns);
    match condition {
        Condition::Compare(_, op, literal) => {
            let ordered = !matches!(op, Op::Eq | Op::Ne);
            if ordered && column.kind == Some(Kind::String) && matches!(literal, Literal::Number(_)) {
                return bad(format!("column {} is a string and has no order relative to a number; write the number in quotes to compare strings", column.name));
            }
            Ok(compared(at, *op, place(literal, &column)?))
        }
        Condition::In(_, options) => membership(at, &column, options),
        Condition::Like(_, pattern) => {
            if column.kind != Some(Kind::String) {
                return bad(format!("column {} is {}: LIKE needs a string column", column.name, kind_name(&column)));
            }
            match Pattern::parse(pattern) {
                Some(pattern) => Ok(Expr::Like(at, pattern)),
                None => bad(format!("the LIKE pattern {} ends in its escape character; write it twice", shown(pattern))),
            }
        }
        Condition::Flag(_) => match column.kind {
            Some(Kind::Boolean) => Ok(Expr::Compare(at, Op::Eq, Val::Int(1))),
            _ => bad(format!("column {} is {}, not a condition; compare it with something", column.name, kind_name(&column))),
        },
        _ => Ok(Expr::IsNull(at)),
    }
}

pub fn position(column: Column, columns: &mut Vec<Column>) -> usize {
    match columns.iter().position(|known| known.physical == column.physical) {
        Some(at) => at,
        None => {
            columns.push(column);
            columns.len() - 1
        }
    }
}

fn kind_name(column: &Column) -> String {
    column.kind.map_or_else(|| "of a type without values to compare".into(), Kind::name)
}

fn membership(at: usize, column: &Column, options: &[Literal]) -> Result<Expr> {
    let (mut values, mut any_null) = (Vec::new(), false);
    for option in options {
        match place(option, column)? {
            Place::At(value) => values.push(value),
            Place::Null => any_null = true,
            _ => {}
        }
    }
    let found = if values.is_empty() { never(at) } else { Expr::In(at, values) };
    Ok(if any_null { Expr::Or(vec![found, Expr::Constant(None)]) } else { found })
}

/// False, but unknown where the column is null.
fn never(at: usize) -> Expr {
    Expr::And(vec![Expr::IsNull(at), Expr::Constant(None)])
}

/// True, but unknown where the column is null.
fn always(at: usize) -> Expr {
    Expr::Or(vec![Expr::Not(Box::new(Expr::IsNull(at))), Expr::Constant(None)])
}

fn compared(at: usize, op: Op, place: Place) -> Expr {
    let upwards = matches!(op, Op::Gt | Op::Ge);
    match (place, op) {
        (Place::Null, _) => Expr::Constant(None),
        (Place::At(value), op) => Expr::Compare(at, op, value),
        (_, Op::Ne) => always(at),
        (Place::Nowhere, _) | (_, Op::Eq) => never(at),
        (Place::BelowAll, _) => if upwards { always(at) } else { never(at) },
        (Place::Above(value), _) => Expr::Compare(at, if upwards { Op::Gt } else { Op::Le }, value),
    }
}

fn place(literal: &Literal, column: &Column) -> Result<Place> {
    let Some(kind) = column.kind else {
        return bad(format!("column {} is {}: it supports only IS [NOT] NULL", column.name, kind_name(column)));
    };
    if matches!(literal, Literal::Null) {
        return Ok(Place::Null);
    }
    let misfit = || {
        let what = match literal {
            Literal::Text(text) => format!("the text {}", shown(text)),
            Literal::Number(_) => "a number".into(),
            Literal::Boolean(_) => "a boolean".into(),
            _ => "a date or timestamp".into(),
        };
        Error::new(Code::BadPredicate, format!("column {} is {}: it cannot be compared with {what}", column.name, kind.name()))
    };
    let number = || match literal {
        Literal::Number(text) => Ok(text.as_str()),
        Literal::Text(text) => Ok(text.trim()),
        _ => Err(misfit()),
    };
    match kind {
        Kind::Byte | Kind::Short | Kind::Integer | Kind::Long => {
            let (least, most) = kind.integer_range().unwrap_or_default();
            place_number(number()?, 0, least.into(), most.into(), |v| Val::Int(v as i64)).ok_or_else(misfit)
        }
        Kind::Decimal(p, s) => {
            let most = power_of_ten(p) - 1;
            place_number(number()?, s, -most, most, Val::Dec).ok_or_else(misfit)
        }
        Kind::Float | Kind::Double => {
            let is_text = matches!(literal, Literal::Text(_));
            place_float(number()?, kind == Kind::Float, is_text).ok_or_else(misfit)
        }
        Kind::Date => Ok(match instant(literal).ok_or_else(misfit)?? {
            (micros, exact) => {
                let (days, rest) = (micros.div_euclid(DAY.into()), micros.rem_euclid(DAY.into()));
                let day = Val::Int(days as i64);
                if exact && rest == 0 { Place::At(day) } else { Place::Above(day) }
            }
        }),
        Kind::Timestamp | Kind::TimestampNtz => Ok(match instant(literal).ok_or_else(misfit)?? {
            (micros, _) if micros > i64::MAX.into() => Place::Above(Val::Int(i64::MAX)),
            (micros, _) if micros < i64::MIN.into() => Place::BelowAll,
            (micros, true) => Place::At(Val::Int(micros as i64)),
            (micros, false) => Place::Above(Val::Int(micros as i64)),
        }),
        Kind::String | Kind::Binary => match literal {
            Literal::Text(text) => Ok(bytes_at(text)),
            Literal::Number(text) if kind == Kind::String => Ok(bytes_at(text)),
            _ => Err(misfit()),
        },
        Kind::Boolean => match literal {
            Literal::Boolean(value) => Ok(Place::At(Val::Int((*value).into()))),
            Literal::Text(text) => match text.trim().to_lowercase().as_str() {
                "true" | "t" | "yes" | "y" | "1" => Ok(Place::At(Val::Int(1))),
                "false" | "f" | "no" | "n" | "0" => Ok(Place::At(Val::Int(0))),
                _ => Err(misfit()),
            },
            _ => Err(misfit()),
        },
    }
}

fn bytes_at(text: &str) -> Place {
    Place::At(Val::Bytes(text.as_bytes().to_vec().into()))
}

fn instant(literal: &Literal) -> Option<Result<(i128, bool)>> {
    let of = |literal: &Literal| match literal {
        Literal::Day(days) => (i128::from(*days) * i128::from(DAY), true),
        Literal::Instant { micros, exact } => (*micros, *exact),
        _ => (0, false),
    };
    match literal {
        Literal::Text(text) => Some(parse_instant(text).map(|read| of(&read))),
        Literal::Day(_) | Literal::Instant { .. } => Some(Ok(of(literal))),
        _ => None,
    }
}

/// An infinity or NaN in words.
fn special(text: &str) -> Option<f64> {
    let (sign, name) = match text.as_bytes().first()? {
        b'-' => (-1.0, &text[1..]),
        b'+' => (1.0, &text[1..]),
        _ => (1.0, text),
    };
    match name.to_lowercase().as_str() {
        "nan" => Some(f64::NAN),
        "inf" | "infinity" => Some(sign * f64::INFINITY),
        _ => None,
    }
}

fn place_number(text: &str, scale: u32, least: i128, most: i128, value: fn(i128) -> Val<'static>) -> Option<Place> {
    use std::cmp::Ordering;
    let side = match special(text) {
        Some(number) if number.is_nan() => return Some(Place::Nowhere),
        Some(number) => Err(if number > 0.0 { Ordering::Greater } else { Ordering::Less }),
        None => Exact::parse(text)?.unscaled(scale, Side::Min),
    };
    Some(match side {
        Ok((floor, true)) if (least..=most).contains(&floor) => Place::At(value(floor)),
        Ok((floor, false)) if (least..=most).contains(&floor) => Place::Above(value(floor)),
        Ok((floor, _)) if floor > most => Place::Above(value(most)),
        Err(Ordering::Greater) => Place::Above(value(most)),
        _ => Place::BelowAll,
    })
}

fn place_float(text: &str, single: bool, is_text: bool) -> Option<Place> {
    let number = match special(text) {
        Some(number) if number.is_nan() => return Some(Place::Nowhere),
        Some(number) => return Some(Place::At(Val::Float(number))),
        None => {
            Exact::parse(text)?;
            text.parse::<f64>().ok()?
        }
    };
    if number.is_infinite() {
        // A finite number beyond every value of the type.
        let most = if single { f64::from(f32::MAX) } else { f64::MAX };
        return Some(Place::Above(Val::Float(if number > 0.0 { most } else { f64::NEG_INFINITY })));
    }
    if !single {
        return Some(Place::At(Val::Float(number)));
    }
    let nearest = number as f32;
    if is_text || f64::from(nearest) == number {
        return Some(Place::At(Val::Float(nearest.into())));
    }
    let below = if f64::from(nearest) < number { nearest } else { next_float(nearest, false) };
    Some(Place::Above(Val::Float(below.into())))
}
