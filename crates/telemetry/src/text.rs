//! OpenMetrics text to the classic Prometheus text format, which every scraper and `promtool check metrics` read.

use std::collections::HashSet;

/// In OpenMetrics the family of a counter has no `_total`, its samples have; in the classic format both have.
pub(crate) fn classic(openmetrics: &str) -> String {
    let counters: HashSet<&str> =
        openmetrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter")).collect();
    let mut text = String::with_capacity(openmetrics.len() + 1_024);
    for line in openmetrics.lines() {
        let comment = line.strip_prefix("# ").and_then(|rest| rest.split_once(' '));
        match comment {
            Some((kind @ ("HELP" | "TYPE"), rest)) => {
                let (name, said) = rest.split_once(' ').unwrap_or((rest, ""));
                let suffix = if counters.contains(name) { "_total" } else { "" };
                text.push_str(&format!("# {kind} {name}{suffix} {said}\n"));
            }
            Some(_) => {}
            None if line == "# EOF" => {}
            None => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::classic;

    #[test]
    fn counters_are_named_like_their_samples() {
        let text = "# HELP a_b Things.\n# TYPE a_b counter\na_b_total{x=\"# EOF\"} 1\n# TYPE g gauge\n# UNIT g seconds\ng 2\n# EOF\n";
        let expected =
            "# HELP a_b_total Things.\n# TYPE a_b_total counter\na_b_total{x=\"# EOF\"} 1\n# TYPE g gauge\ng 2\n";
        assert_eq!(classic(text), expected);
    }
}
