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
    prefix: Vec<u8>,
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
        let mut prefix = String::new();
        for piece in &pieces {
            match piece {
                Piece::Is(c) => prefix.push(*c),
                _ => break,
            }
        }
        Some(Pattern { pieces, prefix: prefix.into_bytes() })
    }

    /// Whether a value that is there may match (`wanted`) or not match.
    pub fn may_be(&self, wanted: bool, facts: &Facts<'_>) -> bool {
        match &facts.min {
            Some(Val::Bytes(value)) if facts.is_value => {
                std::str::from_utf8(value).map_or(true, |text| self.matches(text) == wanted)
            }
            _ => !wanted || self.in_reach(facts),
        }
    }

    fn in_reach(&self, facts: &Facts<'_>) -> bool {
        let below = matches!(&facts.max, Some(Val::Bytes(max)) if max.as_ref() < self.prefix.as_slice());
        let above = matches!(&facts.min, Some(Val::Bytes(min))
            if min[..min.len().min(self.prefix.len())] > self.prefix[..]);
        !below && !above
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
