//! Numbers of bytes.

use crate::error::Result;
use crate::invalid;

/// Parses a number of bytes, such as `512M`. Error: it is none.
pub fn parse(name: &str, text: &str) -> Result<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match &text[digits.len()..] {
        "" => Some(0),
        "K" => Some(10),
        "M" => Some(20),
        "G" => Some(30),
        _ => None,
    };
    let scaled = |shift: u32| digits.parse::<u64>().ok()?.checked_mul(1 << shift);
    match shift.and_then(scaled) {
        Some(bytes) => Ok(bytes),
        None => invalid!("{name}={text} is no number of bytes, as 1500000000, 1500M or 2G"),
    }
}

/// The host's memory, or the part of it that the control group of this process may take; 0 if neither is known.
pub fn of_host() -> u64 {
    let total = || {
        let text = std::fs::read_to_string("/proc/meminfo").ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
    };
    // Of version 2 and of version 1; without a limit, that is a word or a very large number.
    let groups = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let of_group = |file: &str| std::fs::read_to_string(file).ok()?.trim().parse::<u64>().ok();
    total().into_iter().chain(groups.into_iter().filter_map(of_group)).min().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{of_host, parse};

    #[test]
    fn a_host_has_memory() {
        assert!((1 << 26..1 << 50).contains(&of_host()), "{}", of_host());
    }

    #[test]
    fn bytes_are_numbers_with_a_unit() {
        let read = |text| parse("TORCHACC_MEMORY_LIMIT", text).ok();
        assert_eq!(read("12"), Some(12));
        assert_eq!(read("3K"), Some(3 << 10));
        assert_eq!(read("1500M"), Some(1500 << 20));
        assert_eq!(read("2G"), Some(2 << 30));
        for wrong in ["", "G", "1.5G", "-1", "2T", "2 G", "2GB", "99999999999G"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
