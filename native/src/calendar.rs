//! Dates and times as texts: days and microseconds since 1970-01-01 in the proleptic Gregorian calendar.

pub const DAY: i64 = 86_400_000_000;

pub fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let y = if month <= 2 { year - 1 } else { year };
    let era = y.div_euclid(400);
    let of_era = y.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

pub fn date_of(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let m = (5 * of_year + 2) / 153;
    let (day, month) = (of_year - (153 * m + 2) / 5 + 1, if m < 10 { m + 3 } else { m - 9 });
    (year + era * 400 + i64::from(month <= 2), month, day)
}

pub fn month_length(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

pub fn checked_days(year: i64, month: i64, day: i64) -> Option<i64> {
    ((1..=12).contains(&month) && day >= 1 && day <= month_length(year, month)).then(|| days_of(year, month, day))
}

/// A date and a time of a text. The value may be beyond 64 bits, so it is wider.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moment {
    pub micros: i128,
    /// Seconds east of Greenwich; None without a zone. `micros` has it taken off already.
    pub zone: Option<i64>,
    /// Whether digits of a second after the sixth were all zeros.
    pub exact: bool,
}

struct Text<'a> {
    rest: &'a [u8],
}

impl Text<'_> {
    fn take(&mut self, byte: u8) -> bool {
        let found = self.rest.first() == Some(&byte);
        if found {
            self.rest = &self.rest[1..];
        }
        found
    }

    fn two(&mut self) -> Option<i64> {
        let (digits, rest) = self.rest.split_at_checked(2)?;
        let value = number(digits)?;
        self.rest = rest;
        Some(value)
    }

    fn digits(&mut self) -> &[u8] {
        let count = self.rest.iter().take_while(|b| b.is_ascii_digit()).count();
        let (digits, rest) = self.rest.split_at(count);
        self.rest = rest;
        digits
    }

    fn sign(&mut self) -> Option<i64> {
        if self.take(b'-') {
            Some(-1)
        } else {
            self.take(b'+').then_some(1)
        }
    }
}

fn number(digits: &[u8]) -> Option<i64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// `yyyy-MM-dd` and nothing else.
pub fn parse_date(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    if bytes.len() != 10 || bytes[4] != b'-' || bytes[7] != b'-' {
        return None;
    }
    checked_days(number(&bytes[..4])?, number(&bytes[5..7])?, number(&bytes[8..])?)
}

/// A date alone, of the grammar of moments: with a sign and up to six digits of a year.
pub fn parse_day(text: &str) -> Option<i64> {
    let mut t = Text { rest: text.as_bytes() };
    let days = day_of(&mut t)?;
    t.rest.is_empty().then_some(days)
}

fn day_of(t: &mut Text<'_>) -> Option<i64> {
    let sign = t.sign().unwrap_or(1);
    let year = {
        let digits = t.digits();
        if !(4..=6).contains(&digits.len()) {
            return None;
        }
        sign * number(digits)?
    };
    if !t.take(b'-') {
        return None;
    }
    let month = t.two()?;
    if !t.take(b'-') {
        return None;
    }
    checked_days(year, month, t.two()?)
}

/// `date ("T" | " ") time [[" "] zone]`, as the spec writes it.
pub fn parse_moment(text: &str) -> Option<Moment> {
    let mut t = Text { rest: text.as_bytes() };
    let days = day_of(&mut t)?;
    if !t.take(b'T') && !t.take(b' ') {
        return None;
    }
    let (mut clock, mut exact) = (at_most(t.two()?, 23)? * 3600, true);
    let mut micros = 0i64;
    if t.take(b':') {
        clock += at_most(t.two()?, 59)? * 60;
        if t.take(b':') {
            clock += at_most(t.two()?, 59)?;
            if t.take(b'.') {
                let digits = t.digits();
                if digits.is_empty() || digits.len() > 9 {
                    return None;
                }
                exact = digits.iter().skip(6).all(|&b| b == b'0');
                for at in 0..6 {
                    micros = micros * 10 + digits.get(at).map_or(0, |b| i64::from(b - b'0'));
                }
            }
        }
    }
    let zone = zone_of(&mut t)?;
    let local = i128::from(days) * i128::from(DAY) + i128::from(clock) * 1_000_000 + i128::from(micros);
    Some(Moment { micros: local - i128::from(zone.unwrap_or(0)) * 1_000_000, zone, exact })
}

fn zone_of(t: &mut Text<'_>) -> Option<Option<i64>> {
    if t.rest.is_empty() {
        return Some(None);
    }
    t.take(b' ');
    if t.rest == b"Z" || t.rest == b"UTC" {
        return Some(Some(0));
    }
    let sign = t.sign()?;
    let mut offset = at_most(t.two()?, 23)? * 3600;
    if t.take(b':') {
        offset += at_most(t.two()?, 59)? * 60;
        if t.take(b':') {
            offset += at_most(t.two()?, 59)?;
        }
    } else if !t.rest.is_empty() {
        offset += at_most(t.two()?, 59)? * 60;
    }
    t.rest.is_empty().then_some(Some(sign * offset))
}

fn at_most(value: i64, most: i64) -> Option<i64> {
    (value <= most).then_some(value)
}

pub fn date_text(days: i64) -> String {
    let (year, month, day) = date_of(days);
    format!("{year:04}-{month:02}-{day:02}")
}
