//! Which command an expression of a script stands in, and whether that command would execute its value as code.

/// Programs that execute what follows this option.
const INTERPRETERS: [(&str, char); 11] = [
    ("sh", 'c'),
    ("bash", 'c'),
    ("dash", 'c'),
    ("ash", 'c'),
    ("ksh", 'c'),
    ("zsh", 'c'),
    ("su", 'c'),
    ("perl", 'e'),
    ("ruby", 'e'),
    ("node", 'e'),
    ("php", 'r'),
];
/// Words that stand before the command proper.
const BEFORE: [&str; 11] = ["sudo", "exec", "command", "env", "nohup", "time", "then", "do", "else", "if", "while"];

/// What would execute a value that is written behind `before`, if anything does.
pub(super) fn evaluates(before: &str) -> Option<String> {
    let (words, is_inside_word) = last_command(before);
    let (earlier, own) = words.split_at(words.len() - usize::from(is_inside_word));
    let mut names = earlier.iter().enumerate().skip_while(|(_, word)| {
        BEFORE.contains(&word.as_str()) || word.split_once('=').is_some_and(|(name, _)| is_variable(name))
    });
    let (at, first) = names.next().or_else(|| own.first().map(|word| (earlier.len(), word)))?;
    let program = first.rsplit('/').next().unwrap_or(first);
    if program == "eval" && at < earlier.len() {
        return Some("eval".into());
    }
    let letter = match INTERPRETERS.iter().find(|(name, _)| *name == program) {
        Some((_, letter)) => *letter,
        None if program
            .strip_prefix("python")
            .is_some_and(|rest| rest.bytes().all(|byte| byte == b'.' || byte.is_ascii_digit())) =>
        {
            'c'
        }
        None => return None,
    };
    let option = earlier.last().filter(|_| earlier.len() > at + 1)?;
    let is_code = option.starts_with('-') && !option.starts_with("--") && option[1..].contains(letter);
    is_code.then(|| format!("{program} {option}"))
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The words of the command that a text ends in, and whether the last of them is not complete.
fn last_command(text: &str) -> (Vec<String>, bool) {
    let mut words: Vec<String> = Vec::new();
    let mut inside = false;
    let mut quote = None;
    let mut characters = text.chars().peekable();
    while let Some(one) = characters.next() {
        let is_substitution = one == '$' && characters.peek() == Some(&'(') || one == '`';
        match (quote, one) {
            (Some('\''), '\'') => quote = None,
            (Some('\''), _) => push(&mut words, &mut inside, one),
            (_, '\\') => {
                if let Some(escaped) = characters.next()
                    && escaped != '\n'
                {
                    push(&mut words, &mut inside, escaped);
                }
            }
            _ if is_substitution => {
                words.clear();
                inside = false;
                quote = None;
            }
            (Some('"'), '"') => quote = None,
            (Some(_), _) => push(&mut words, &mut inside, one),
            (None, '"' | '\'') => {
                quote = Some(one);
                if !inside {
                    words.push(String::new());
                    inside = true;
                }
            }
            (None, '\n' | ';' | '&' | '|' | '(' | ')' | '{') => {
                words.clear();
                inside = false;
            }
            (None, blank) if blank.is_whitespace() => inside = false,
            (None, _) => push(&mut words, &mut inside, one),
        }
    }
    (words, inside)
}

fn push(words: &mut Vec<String>, inside: &mut bool, character: char) {
    match words.last_mut().filter(|_| *inside) {
        Some(word) => word.push(character),
        None => words.push(character.to_string()),
    }
    *inside = true;
}
