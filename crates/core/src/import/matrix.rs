//! The matrix of a job as the list of its combinations.

use serde_json::{Map, Value};

const MOST: usize = 256;

/// `None` if something of it is not a constant, or there are more than a job can have.
pub(super) fn combinations(matrix: &Value) -> Option<Vec<Map<String, Value>>> {
    let fields = matrix.as_object()?;
    let constant = !matrix.to_string().contains("${{");
    constant.then_some(())?;
    let mut items = vec![Map::new()];
    for (axis, values) in fields.iter().filter(|(key, _)| !matches!(key.as_str(), "include" | "exclude")) {
        let values = values.as_array()?;
        let mut longer = Vec::with_capacity(items.len() * values.len());
        for item in &items {
            for value in values {
                let mut item = item.clone();
                item.insert(axis.clone(), value.clone());
                longer.push(item);
            }
        }
        (longer.len() <= MOST).then_some(())?;
        items = longer;
    }
    if items.len() == 1 && items[0].is_empty() {
        items.clear();
    }
    for unwanted in list(fields.get("exclude"))? {
        items.retain(|item| !unwanted.iter().all(|(key, value)| item.get(key) == Some(value)));
    }
    let axes: Vec<String> = fields.keys().cloned().collect();
    for more in list(fields.get("include"))? {
        // It adds to every combination that it does not contradict, or is one of its own.
        let fits = |item: &Map<String, Value>| {
            more.iter().all(|(key, value)| !axes.contains(key) || item.get(key) == Some(value))
        };
        if items.iter().any(fits) {
            for item in items.iter_mut().filter(|item| fits(item)) {
                item.extend(more.clone());
            }
        } else {
            items.push(more);
        }
    }
    (!items.is_empty() && items.len() <= MOST).then_some(items)
}

fn list(value: Option<&Value>) -> Option<Vec<Map<String, Value>>> {
    match value {
        None => Some(Vec::new()),
        Some(value) => value.as_array()?.iter().map(|item| item.as_object().cloned()).collect(),
    }
}
