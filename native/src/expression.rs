//! A predicate bound to the columns of a table, and the question whether some row of a file may make it true.
//! These are the rules of `docs/spec/reading.md`, in SQL's three-valued logic.

use std::cmp::Ordering;

use crate::like::Pattern;
use crate::values::Val;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl Op {
    pub fn opposite(self) -> Op {
        match self {
            Op::Eq => Op::Ne,
            Op::Ne => Op::Eq,
            Op::Lt => Op::Ge,
            Op::Ge => Op::Lt,
            Op::Gt => Op::Le,
            Op::Le => Op::Gt,
        }
    }

    pub fn mirrored(self) -> Op {
        match self {
            Op::Lt => Op::Gt,
            Op::Gt => Op::Lt,
            Op::Le => Op::Ge,
            Op::Ge => Op::Le,
            same => same,
        }
    }
}

/// Columns are positions in the list of the predicate's columns.
#[derive(Clone, Debug)]
pub enum Expr {
    Constant(Option<bool>),
    Compare(usize, Op, Val<'static>),
    In(usize, Vec<Val<'static>>),
    IsNull(usize),
    Like(usize, Pattern),
    Not(Box<Expr>),
    And(Vec<Expr>),
    Or(Vec<Expr>),
}

/// What is known of a column in a file, a row group or a part. None is unknown.
#[derive(Clone, Debug, Default)]
pub struct Facts<'a> {
    pub min: Option<Val<'a>>,
    pub max: Option<Val<'a>>,
    pub nulls: Option<i64>,
    pub rows: Option<i64>,
    /// NaN may be there, which bounds do not tell.
    pub may_be_nan: bool,
    /// `min` is the one value of all rows: that of a partition column. Bounds of data columns may be cut.
    pub is_value: bool,
}

impl Facts<'_> {
    fn present(&self) -> bool {
        !matches!((self.nulls, self.rows), (Some(nulls), Some(rows)) if nulls == rows)
    }

    fn order(bound: &Option<Val<'_>>, value: &Val<'_>) -> Option<Ordering> {
        bound.as_ref().and_then(|bound| bound.order(value))
    }

    fn possible(&self, op: Op, value: &Val<'_>) -> bool {
        use Ordering::*;
        let (min, max) = (Self::order(&self.min, value), Self::order(&self.max, value));
        let excluded = match op {
            Op::Eq => min == Some(Greater) || max == Some(Less),
            Op::Ne => min == Some(Equal) && max == Some(Equal),
            Op::Lt => matches!(min, Some(Equal | Greater)),
            Op::Le => min == Some(Greater),
            Op::Gt => matches!(max, Some(Equal | Less)),
            Op::Ge => max == Some(Less),
        };
        !excluded
    }
}

/// Where the facts of a file come from, by the column's position.
pub trait Source {
    fn facts(&self, column: usize) -> Facts<'_>;
}

pub fn may_match(expr: &Expr, source: &dyn Source) -> bool {
    may(expr, true, source)
}

fn may(expr: &Expr, wanted: bool, source: &dyn Source) -> bool {
    match expr {
        Expr::Constant(value) => *value == Some(wanted),
        Expr::Not(term) => may(term, !wanted, source),
        Expr::And(terms) if wanted => terms.iter().all(|term| may(term, true, source)),
        Expr::And(terms) => terms.iter().any(|term| may(term, false, source)),
        Expr::Or(terms) if wanted => terms.iter().any(|term| may(term, true, source)),
        Expr::Or(terms) => terms.iter().all(|term| may(term, false, source)),
        Expr::IsNull(column) => {
            let facts = source.facts(*column);
            if wanted {
                facts.nulls != Some(0)
            } else {
                facts.present()
            }
        }
        Expr::Compare(column, op, value) => {
            let facts = source.facts(*column);
            let free = facts.may_be_nan && (!wanted || *op == Op::Ne);
            facts.present() && (free || facts.possible(if wanted { *op } else { op.opposite() }, value))
        }
        Expr::In(column, values) => {
            let facts = source.facts(*column);
            facts.present()
                && match wanted {
                    true => values.iter().any(|value| facts.possible(Op::Eq, value)),
                    false => facts.may_be_nan || values.iter().all(|value| facts.possible(Op::Ne, value)),
                }
        }
        Expr::Like(column, pattern) => {
            let facts = source.facts(*column);
            facts.present() && pattern.may_be(wanted, &facts)
        }
    }
}

pub fn columns_of(expr: &Expr, found: &mut Vec<usize>) {
    match expr {
        Expr::Constant(_) => {}
        Expr::Not(term) => columns_of(term, found),
        Expr::And(terms) | Expr::Or(terms) => terms.iter().for_each(|term| columns_of(term, found)),
        Expr::Compare(column, ..) | Expr::In(column, _) | Expr::IsNull(column) | Expr::Like(column, _) => {
            found.push(*column);
        }
    }
}
