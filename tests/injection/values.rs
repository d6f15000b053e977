//! A hundred values that have broken other programs. `CANARY` stands for the path that must not come into being.

use crate::place::Place;

const SHELL: &[&str] = &[
    "; touch CANARY",
    "$(touch CANARY)",
    "`touch CANARY`",
    "| touch CANARY",
    "&& touch CANARY",
    "|| touch CANARY",
    "& touch CANARY &",
    "> CANARY",
    "'; touch CANARY; '",
    "\"; touch CANARY; \"",
    "\\\"; touch CANARY; \\\"",
    "'\"; touch CANARY #",
    "$(touch${IFS}CANARY)",
    "${IFS}touch${IFS}CANARY",
    "{touch,CANARY}",
    "<(touch CANARY)",
    ">(touch CANARY)",
    "a[$(touch CANARY)]",
    "$((a[$(touch CANARY)]))",
    "x=$(touch CANARY)",
    "() { :; }; touch CANARY",
    "\ntouch CANARY\n",
    "\r\ntouch CANARY\r\n",
    "a\nEND\ntouch CANARY\n",
    "EOF\ntouch CANARY\nEOF",
    ";rm -rf ./*",
    "-rf /",
    "--help",
    "-n",
    "-e \\x41\\n",
    "*",
    "?[a-z]*",
    "~",
    "~root/.ssh",
    "$HOME",
    "${PATH:-none}",
    "$MAINSPRING_EXPR_0",
    "${MAINSPRING_EXPR_1}",
    "$0 $@ $$ $!",
    "!!",
    "!touch",
    "#comment",
    "\\",
    "\\\\",
    "\\n",
    "'",
    "\"",
    "''",
    "\"\"",
    "$'\\x41'",
    "%s%n%x",
    "a\tb",
    " leading and trailing ",
    "trailing newlines\n\n",
];

const PYTHON: &[&str] = &[
    "__import__('os').system('touch CANARY')",
    "'''; __import__('os').system('touch CANARY'); '''",
    "\"\"\"",
    "f\"{open('CANARY','w')}\"",
    "\\N{LATIN SMALL LETTER A}",
    "%(a)s {0} {a}",
];

const TEMPLATES: &[&str] = &[
    "{{ 7 * 7 }}",
    "${{ 7 * 7 }}",
    "${{ secrets.KEY }}",
    "${{ env.PATH }}",
    "${{ inputs.values }}",
    "${{ '${{ 1 }}' }}",
    "{% raw %}",
    "{% for x in range(9) %}x{% endfor %}",
    "{# gone #}",
    "}}",
    "{{",
    "${{",
    "${7*7}",
    "#{7*7}",
    "<%= 7*7 %>",
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
];

const SQL: &[&str] = &[
    "' OR '1'='1",
    "'; DROP TABLE runs; --",
    "\"; DROP TABLE runs; --",
    "\\'; DROP TABLE runs; --",
    "1; SELECT pg_sleep(100)",
    "') UNION SELECT 1 --",
    "$1",
    "$$; DROP TABLE runs; $$",
    "/* */ -- #",
    "%_%",
];

const PATHS: &[&str] = &[
    "../../../../etc/passwd",
    "..",
    "/etc/passwd",
    "....//....//etc",
    "%2e%2e%2fetc",
    "..\\..\\etc",
    "file:///etc/passwd",
];

const UNICODE: &[&str] = &[
    "\u{202e}txt.exe",
    "\u{200b}zero\u{200d}width",
    "\u{feff}bom",
    "；touch CANARY",
    "＄（touch CANARY）",
    "e\u{301}\u{2028}\u{85}\u{a0}",
    "\u{1b}[2J\u{7}\u{7f}\u{1}",
    "🦀𝕏İ",
];

fn with_canary(place: &Place, values: &[&str]) -> Vec<String> {
    let canary = place.canary().display().to_string();
    values.iter().map(|value| value.replace("CANARY", &canary)).collect()
}

/// All of them, and one that is long.
pub(crate) fn all(place: &Place) -> Vec<String> {
    let mut values = Vec::new();
    for class in [SHELL, PYTHON, TEMPLATES, SQL, PATHS, UNICODE] {
        values.extend(with_canary(place, class));
    }
    values.push("'\"$(x)`".repeat(2_000));
    assert!(values.len() >= 100, "{} values", values.len());
    values
}

pub(crate) fn templates(place: &Place) -> Vec<String> {
    with_canary(place, TEMPLATES)
}

pub(crate) fn sql(place: &Place) -> Vec<String> {
    with_canary(place, SQL)
}

pub(crate) fn paths(place: &Place) -> Vec<String> {
    with_canary(place, PATHS)
}

pub(crate) fn shell(place: &Place) -> Vec<String> {
    with_canary(place, SHELL)
}

/// The bytes of a text, as scripts report them.
pub(crate) fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}
