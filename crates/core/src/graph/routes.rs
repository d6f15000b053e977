//! Which row each edge takes between two layers.
//!
//! All edges of one node share a horizontal line. A line that comes down where another node's edges arrive must
//! leave that column above them, or the two would look like one.

/// The edges of one node: where they come down, and where they arrive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bundle {
    pub(super) from: i64,
    pub(super) to: Vec<i64>,
    /// `None`: straight down.
    pub(super) track: Option<usize>,
}

impl Bundle {
    pub(super) fn new(from: i64, to: Vec<i64>) -> Self {
        Self { from, to, track: None }
    }

    fn is_straight(&self) -> bool {
        self.to.iter().all(|column| *column == self.from)
    }

    /// Lines that go to this one place only may run into each other.
    fn sole_target(&self) -> Option<i64> {
        let first = *self.to.first()?;
        self.to.iter().all(|column| *column == first).then_some(first)
    }

    pub(super) fn left(&self) -> i64 {
        self.to.iter().copied().fold(self.from, i64::min)
    }

    pub(super) fn right(&self) -> i64 {
        self.to.iter().copied().fold(self.from, i64::max)
    }
}

/// Gives every bundle its track and returns how many there are; `None` if no assignment tells all edges apart.
pub(super) fn assign(bundles: &mut [Bundle]) -> Option<usize> {
    let count = bundles.len();
    // `after[one]`: those that must lie below it.
    let mut after: Vec<Vec<usize>> = vec![Vec::new(); count];
    let mut open = vec![0_usize; count];
    for (upper, bundle) in bundles.iter().enumerate().filter(|(_, bundle)| !bundle.is_straight()) {
        for (lower, other) in bundles.iter().enumerate() {
            if upper != lower && !other.is_straight() && other.to.contains(&bundle.from) {
                after[upper].push(lower);
                open[lower] += 1;
            }
        }
    }
    let mut taken: Vec<Vec<(i64, i64, Option<i64>)>> = Vec::new();
    let mut least = vec![0_usize; count];
    let mut queue: Vec<usize> = (0..count).filter(|bundle| open[*bundle] == 0).collect();
    let mut placed = 0;
    while let Some(number) = queue.pop() {
        placed += 1;
        let bundle = &mut bundles[number];
        let mut track = least[number];
        if !bundle.is_straight() {
            let (left, right, sole) = (bundle.left(), bundle.right(), bundle.sole_target());
            let is_free = |track: &Vec<(i64, i64, Option<i64>)>| {
                track
                    .iter()
                    .all(|(from, to, other)| right < *from - 1 || left > *to + 1 || sole.is_some() && sole == *other)
            };
            while taken.get(track).is_some_and(|track| !is_free(track)) {
                track += 1;
            }
            if taken.len() <= track {
                taken.resize(track + 1, Vec::new());
            }
            taken[track].push((left, right, sole));
            bundle.track = Some(track);
        }
        for lower in &after[number] {
            least[*lower] = least[*lower].max(track + 1);
            open[*lower] -= 1;
            if open[*lower] == 0 {
                queue.push(*lower);
            }
        }
    }
    (placed == count).then_some(taken.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bundles: &[(i64, &[i64])], expected: Option<(usize, &[Option<usize>])>) {
        let mut given: Vec<Bundle> = bundles.iter().map(|(from, to)| Bundle::new(*from, to.to_vec())).collect();
        let count = assign(&mut given);
        let tracks: Vec<Option<usize>> = given.iter().map(|bundle| bundle.track).collect();
        assert_eq!(count, expected.map(|(count, _)| count), "{bundles:?}");
        if let Some((_, expected)) = expected {
            assert_eq!(tracks, expected, "{bundles:?}");
        }
    }

    #[test]
    fn lines_that_do_not_touch_share_a_track() {
        check(&[(5, &[5])], Some((0, &[None])));
        check(&[(1, &[4]), (8, &[11])], Some((1, &[Some(0), Some(0)])));
        check(&[(1, &[9]), (5, &[14])], Some((2, &[Some(1), Some(0)])));
        check(&[(1, &[9]), (5, &[9])], Some((1, &[Some(0), Some(0)])));
    }

    #[test]
    fn a_line_leaves_a_column_before_another_arrives_in_it() {
        check(&[(1, &[5]), (5, &[9])], Some((2, &[Some(1), Some(0)])));
        check(&[(1, &[5]), (5, &[1])], None);
    }
}
