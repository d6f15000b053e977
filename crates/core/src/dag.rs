//! Graph algorithms over tasks addressed by index. All are iterative and linear in tasks and edges.

/// The reverse of `needs`: for every node the nodes that need it, ascending.
pub fn dependents<'a>(count: usize, needs: impl Fn(usize) -> &'a [i32]) -> Vec<Vec<i32>> {
    let mut sizes = vec![0_usize; count];
    for node in 0..count {
        for need in needs(node) {
            sizes[*need as usize] += 1;
        }
    }
    let mut dependents: Vec<Vec<i32>> = sizes.into_iter().map(Vec::with_capacity).collect();
    for node in 0..count {
        for need in needs(node) {
            dependents[*need as usize].push(node as i32);
        }
    }
    dependents
}

/// What a walk in dependency order found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// Nodes so that each stands behind all it needs; those on or behind a cycle are missing.
    pub sorted: Vec<i32>,
    /// Longest path to a root, by node: 0 for a node without needs. Meaningless for nodes that are missing above.
    pub levels: Vec<u32>,
}

impl Order {
    pub fn is_acyclic(&self) -> bool {
        self.sorted.len() == self.levels.len()
    }
}

/// Sorts nodes topologically; ties keep the order of the indexes.
pub fn order<'a>(needs: impl Fn(usize) -> &'a [i32], dependents: &[Vec<i32>]) -> Order {
    let count = dependents.len();
    let mut open: Vec<u32> = (0..count).map(|node| needs(node).len() as u32).collect();
    let mut levels = vec![0_u32; count];
    let mut sorted: Vec<i32> = (0..count as i32).filter(|node| open[*node as usize] == 0).collect();
    let mut next = 0;
    while next < sorted.len() {
        let node = sorted[next] as usize;
        next += 1;
        for dependent in &dependents[node] {
            let other = *dependent as usize;
            levels[other] = levels[other].max(levels[node] + 1);
            open[other] -= 1;
            if open[other] == 0 {
                sorted.push(*dependent);
            }
        }
    }
    Order { sorted, levels }
}

/// Some cycles that share no node, each as a path in which every node needs the next and the last needs the first.
/// At most `limit` of them, at least one if there is any.
pub fn cycles<'a>(needs: impl Fn(usize) -> &'a [i32], order: &Order, limit: usize) -> Vec<Vec<i32>> {
    const UNSEEN: u32 = 0;
    const DONE: u32 = u32::MAX;
    let count = order.levels.len();
    let mut mark = vec![UNSEEN; count];
    for node in &order.sorted {
        mark[*node as usize] = DONE;
    }
    let mut found = Vec::new();
    for start in 0..count {
        if mark[start] != UNSEEN || found.len() == limit {
            continue;
        }
        // Every node that was not sorted needs another such node, so this walk can only end in a cycle or in what
        // an earlier walk has seen.
        let walk_number = start as u32 + 1;
        let mut path = Vec::new();
        let mut node = start;
        let closed = loop {
            mark[node] = walk_number;
            path.push(node as i32);
            let fresh = |need: &usize| mark[*need] == UNSEEN || mark[*need] == walk_number;
            match needs(node).iter().map(|need| *need as usize).find(fresh) {
                Some(next) if mark[next] == walk_number => break Some(next as i32),
                Some(next) => node = next,
                None => break None,
            }
        };
        if let Some(first) = closed {
            let begin = path.iter().position(|node| *node == first).unwrap_or(0);
            found.push(path[begin..].to_vec());
        }
    }
    found
}

/// For each pair (node, target): whether the node needs the target, directly or through others.
///
/// Targets are taken 512 at a time; each group is one walk over the edges, so that even a hundred thousand pairs
/// in a graph of a million edges stay cheap.
pub fn reaches<'a>(needs: impl Fn(usize) -> &'a [i32], order: &Order, pairs: &[(i32, i32)]) -> Vec<bool> {
    const WORDS: usize = 8;
    let mut answers = vec![false; pairs.len()];
    let mut by_target: Vec<usize> = (0..pairs.len()).collect();
    by_target.sort_unstable_by_key(|pair| pairs[*pair].1);
    let mut targets: Vec<i32> = by_target.iter().map(|pair| pairs[*pair].1).collect();
    targets.dedup();
    let mut first_pair = 0;
    for group in targets.chunks(WORDS * 64) {
        let mut above = vec![[0_u64; WORDS]; order.levels.len()];
        let bit = |target: i32| group.binary_search(&target).ok().map(|at| (at / 64, 1_u64 << (at % 64)));
        for node in &order.sorted {
            let mut seen = [0_u64; WORDS];
            for need in needs(*node as usize) {
                for (word, other) in seen.iter_mut().zip(above[*need as usize]) {
                    *word |= other;
                }
                if let Some((word, bit)) = bit(*need) {
                    seen[word] |= bit;
                }
            }
            above[*node as usize] = seen;
        }
        while first_pair < by_target.len() {
            let pair = by_target[first_pair];
            let Some((word, bit)) = bit(pairs[pair].1) else { break };
            answers[pair] = above[pairs[pair].0 as usize][word] & bit != 0;
            first_pair += 1;
        }
    }
    answers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(needs: &[&[i32]], sorted: &[i32], levels: &[u32], expected: &[&[i32]]) {
        let order = order(|node| needs[node], &dependents(needs.len(), |node| needs[node]));
        assert_eq!(order.sorted, sorted, "{needs:?}");
        if order.is_acyclic() {
            assert_eq!(order.levels, levels, "{needs:?}");
        }
        assert_eq!(cycles(|node| needs[node], &order, 10), expected, "{needs:?}");
    }

    #[test]
    fn nodes_come_behind_what_they_need() {
        check(&[], &[], &[], &[]);
        check(&[&[1], &[2], &[]], &[2, 1, 0], &[2, 1, 0], &[]);
        check(&[&[], &[0], &[0], &[1, 2]], &[0, 1, 2, 3], &[0, 1, 1, 2], &[]);
    }

    #[test]
    fn cycles_are_found_as_paths() {
        check(&[&[0]], &[], &[], &[&[0]]);
        check(&[&[1], &[2], &[0]], &[], &[], &[&[0, 1, 2]]);
        check(&[&[], &[0, 2], &[3], &[1], &[1]], &[0], &[], &[&[1, 2, 3]]);
        check(&[&[1], &[0], &[3], &[2]], &[], &[], &[&[0, 1], &[2, 3]]);
    }

    #[test]
    fn a_cycle_behind_another_cycle_is_not_lost() {
        check(&[&[1], &[0], &[0, 3], &[2], &[0]], &[], &[], &[&[0, 1], &[2, 3]]);
    }

    #[test]
    fn size_is_no_problem() {
        let count = 100_000;
        let ring: Vec<Vec<i32>> = (0..count).map(|node| vec![(node + 1) % count]).collect();
        let order = order(|node| &ring[node], &dependents(ring.len(), |node| &ring[node]));
        assert_eq!(cycles(|node| &ring[node], &order, 10)[0].len(), ring.len());
    }
}
