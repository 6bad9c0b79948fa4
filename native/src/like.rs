//! `LIKE` patterns: what the bounds of a string column tell of them.

use crate::expression::Facts;
use crate::values::Val;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Piece {
    Any,
    One,
    Is(char),
}

#[derive(Clone, Debug)]
pub struct Pattern {
    pieces: Vec<Piece>,
    /// What stands before the first wildcard.
    prefix: Vec<u8>,
    /// There is no wildcard: the pattern is an equality.
    is_literal: bool,
    /// The pattern is the prefix and `%`: whatever begins with the prefix matches.
    is_prefix: bool,
}

impl Pattern {
    /// The pattern of a text, in which a backslash takes the meaning from the next character. None if it ends in one.
    pub fn parse(text: &str) -> Option<Pattern> {
        let mut pieces = Vec::new();
        let mut rest = text.chars();
        while let Some(c) = rest.next() {
            pieces.push(match c {
                '\\' => Piece::Is(rest.next()?),
                '%' => Piece::Any,
                '_' => Piece::One,
                c => Piece::Is(c),
            });
        }
        let prefix: String = pieces.iter().map_while(|piece| if let Piece::Is(c) = piece { Some(*c) } else { None }).collect();
        let wild = &pieces[prefix.chars().count()..];
        let (is_literal, is_prefix) = (wild.is_empty(), !wild.is_empty() && wild.iter().all(|piece| *piece == Piece::Any));
        Some(Pattern { prefix: prefix.into_bytes(), is_literal, is_prefix, pieces })
    }

    /// Whether a value that is there may match (`wanted`) or not match.
    pub fn may_be(&self, wanted: bool, facts: &Facts<'_>) -> bool {
        match &facts.min {
            Some(Val::Bytes(value)) if facts.is_value => {
                std::str::from_utf8(value).map_or(true, |text| self.matches(text) == wanted)
            }
            _ if wanted => self.in_reach(facts),
            _ => !self.holds_all(facts),
        }
    }

    fn in_reach(&self, facts: &Facts<'_>) -> bool {
        let below = matches!(&facts.max, Some(Val::Bytes(max)) if max.as_ref() < self.prefix.as_slice());
        let above = matches!(&facts.min, Some(Val::Bytes(min)) if self.is_after(min));
        !below && !above
    }

    /// Whether a value comes after all that match.
    fn is_after(&self, value: &[u8]) -> bool {
        let begin = if self.is_literal { value } else { &value[..value.len().min(self.prefix.len())] };
        begin > self.prefix.as_slice()
    }

    /// Whether every value between the bounds matches.
    fn holds_all(&self, facts: &Facts<'_>) -> bool {
        let (Some(Val::Bytes(min)), Some(Val::Bytes(max))) = (&facts.min, &facts.max) else { return false };
        (self.is_literal || self.is_prefix) && min.as_ref() >= self.prefix.as_slice() && !self.is_after(max)
    }

    fn matches(&self, text: &str) -> bool {
        let text: Vec<char> = text.chars().collect();
        let (mut at, mut piece) = (0, 0);
        let mut retry: Option<(usize, usize)> = None;
        while at < text.len() {
            match self.pieces.get(piece) {
                Some(Piece::Any) => {
                    retry = Some((piece, at));
                    piece += 1;
                }
                Some(Piece::One) => (at, piece) = (at + 1, piece + 1),
                Some(Piece::Is(c)) if *c == text[at] => (at, piece) = (at + 1, piece + 1),
                _ => match retry {
                    Some((any, from)) => {
                        retry = Some((any, from + 1));
                        (at, piece) = (from + 1, any + 1);
                    }
                    None => return false,
                },
            }
        }
        self.pieces[piece..].iter().all(|piece| *piece == Piece::Any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::text_val;

    fn may_be(pattern: &str, wanted: bool, min: &'static str, max: &'static str) -> bool {
        let facts = Facts { min: Some(text_val(min)), max: Some(text_val(max)), ..Facts::default() };
        Pattern::parse(pattern).is_some_and(|pattern| pattern.may_be(wanted, &facts))
    }

    #[test]
    fn a_prefix() {
        assert!(may_be("ab%", true, "aa", "ac") && may_be("ab%", true, "abz", "c"));
        assert!(!may_be("ab%", true, "ac", "b") && !may_be("ab%", true, "a", "aaz"));
        assert!(!may_be("ab%", false, "ab", "abz") && may_be("ab%", false, "ab", "ac") && may_be("ab%", false, "aa", "abz"));
        assert!(may_be("ab%c", false, "ab", "abz") && may_be("ab_", false, "ab", "abz"));
    }

    #[test]
    fn a_text_without_wildcards() {
        assert!(may_be("ab", true, "a", "b") && !may_be("ab", true, "abc", "b"));
        assert!(!may_be("ab", false, "ab", "ab") && may_be("ab", false, "ab", "abc") && may_be(r"a\%", true, "a%", "a%"));
    }
}
