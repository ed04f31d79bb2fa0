//! The shortest tree that joins points of a periodic cell, each edge from a point to the nearest image of another.
//!
//! It knows points and no atoms. The tree is built as Borůvka's (each component except the largest takes the shortest
//! edge to a different component). A tree of balls finds the nearest point of a different component: it skips a ball
//! that is farther than the best point found, or that has only points of the same component. Edges of the same length
//! are ordered by the numbers of their points, so that there is one shortest tree.

use super::images::{Fault, PeriodicCell, Vector, dot, minus};

/// Points in a ball that is not divided.
const UNDIVIDED: usize = 8;
/// Bounds are compared with this room for rounding.
const ROOM: f64 = 1e-9;
const NONE: u32 = u32::MAX;

/// An edge from a point to the nearest image of another point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Edge {
    /// Its length, squared.
    squared: f64,
    /// The two points, ascending.
    pub(super) points: [u32; 2],
    /// Edges of the cell that bring the second one there.
    pub(super) counts: [i64; 3],
}

impl Edge {
    fn connect(points: [u32; 2], centres: &[Vector], cell: &PeriodicCell) -> Result<Self, Fault> {
        let [first, second] = [points[0].min(points[1]), points[0].max(points[1])];
        let displacement = minus(centres[second as usize], centres[first as usize]);
        let counts = cell.to_nearest(displacement, second)?;
        let by = cell.sum(counts);
        let image = [0, 1, 2].map(|x| displacement[x] + by[x]);
        Ok(Self { squared: dot(image, image), points: [first, second], counts })
    }

    fn is_before(&self, other: &Self) -> bool {
        self.squared.total_cmp(&other.squared).then(self.points.cmp(&other.points)).is_lt()
    }
}

/// The edges of the shortest tree, in no order. If an image has no place, the fault names the point.
/// Errors: [`Fault`].
pub(super) fn shortest_tree(centres: &[Vector], cell: &PeriodicCell) -> Result<Vec<Edge>, Fault> {
    let mut search = Search::new(centres, cell);
    let mut edges = Vec::with_capacity(centres.len().saturating_sub(1));
    while edges.len() + 1 < centres.len() {
        search.find_best()?;
        let (best, components) = (std::mem::take(&mut search.best), &mut search.components);
        for edge in best.iter().flatten() {
            if components.unite(edge.points) {
                edges.push(*edge);
            }
        }
        search.best = best;
    }
    Ok(edges)
}

/// Points that are joined.
struct Components {
    /// For each point, another point of its component, or itself.
    toward: Vec<u32>,
}

impl Components {
    fn find(&mut self, mut point: u32) -> u32 {
        while self.toward[point as usize] != point {
            let next = self.toward[self.toward[point as usize] as usize];
            self.toward[point as usize] = next;
            point = next;
        }
        point
    }

    /// Whether they were not joined yet.
    fn unite(&mut self, points: [u32; 2]) -> bool {
        let [one, other] = points.map(|point| self.find(point));
        self.toward[one.max(other) as usize] = one.min(other);
        one != other
    }
}

/// A ball around some points; the next one is its first half, `second` the other.
struct Ball {
    middle: Vector,
    radius: f64,
    points: [u32; 2],
    second: u32,
    /// Component of all its points; none if they are in several.
    component: u32,
}

/// State of the points between two rounds.
struct Search<'a> {
    cell: &'a PeriodicCell,
    centres: &'a [Vector],
    /// Images in one cell, in the order of the balls.
    images: Vec<Vector>,
    order: Vec<u32>,
    balls: Vec<Ball>,
    components: Components,
    component_of: Vec<u32>,
    /// The shortest edge from each point to a different component, at the time of its search.
    known: Vec<Option<Edge>>,
    /// Edges of each point to different components are at least this long, squared.
    at_least: Vec<f64>,
    /// The shortest edge from each component except the largest to a different component.
    best: Vec<Option<Edge>>,
}

impl<'a> Search<'a> {
    fn new(centres: &'a [Vector], cell: &'a PeriodicCell) -> Self {
        let lattice = cell.lattice();
        let in_cell = |centre: &Vector| {
            let mut image = *centre;
            for (dual, basis) in lattice.dual().iter().zip(lattice.basis()) {
                let cells = dot(*dual, *centre).floor();
                image = [0, 1, 2].map(|x| image[x] - cells * basis[x]);
            }
            image
        };
        let n = centres.len();
        let images: Vec<Vector> = centres.iter().map(in_cell).collect();
        let mut order: Vec<u32> = (0..n as u32).collect();
        let mut balls = Vec::with_capacity(2 * n / UNDIVIDED + 2);
        divide(&mut order, 0, &images, &mut balls);
        Self {
            cell,
            centres,
            images: order.iter().map(|&point| images[point as usize]).collect(),
            balls,
            components: Components { toward: order_of(n) },
            component_of: vec![0; n],
            order,
            known: vec![None; n],
            at_least: vec![0.0; n],
            best: vec![None; n],
        }
    }

    /// Finds the shortest edge of each component but the largest.
    fn find_best(&mut self) -> Result<(), Fault> {
        let n = self.centres.len();
        let mut sizes = vec![0_u32; n];
        for point in 0..n {
            let component = self.components.find(point as u32);
            self.component_of[point] = component;
            sizes[component as usize] += 1;
        }
        let largest = (0..n).rev().max_by_key(|&component| sizes[component]).unwrap_or_default() as u32;
        self.colour_balls();
        self.best.fill(None);
        let mut waiting = Vec::new();
        for place in 0..n {
            let point = self.order[place] as usize;
            let component = self.component_of[point];
            if component == largest {
                continue;
            }
            let best = self.best[component as usize];
            let other =
                |edge: &Edge| self.component_of[edge.points[0] as usize] != self.component_of[edge.points[1] as usize];
            let found = match self.known[point].filter(other) {
                Some(known) => Some(known),
                None if best.is_some_and(|best| self.at_least[point] > best.squared) => None,
                None => {
                    let found = self.nearest(place, best, &mut waiting)?;
                    self.known[point] = found;
                    self.at_least[point] = found.or(best).map_or(0.0, |edge| edge.squared);
                    found
                }
            };
            if let Some(found) = found.filter(|found| best.is_none_or(|best| found.is_before(&best))) {
                self.best[component as usize] = Some(found);
            }
        }
        Ok(())
    }

    fn colour_balls(&mut self) {
        for number in (0..self.balls.len()).rev() {
            let Ball { points: [start, end], second, .. } = self.balls[number];
            self.balls[number].component = if second == NONE {
                let mut of =
                    self.order[start as usize..end as usize].iter().map(|&point| self.component_of[point as usize]);
                let first = of.next().unwrap_or(NONE);
                if of.all(|component| component == first) { first } else { NONE }
            } else {
                let [one, other] = [number + 1, second as usize].map(|ball| self.balls[ball].component);
                if one == other { one } else { NONE }
            };
        }
    }

    /// The shortest edge from a point to a different component, if it comes before a known one.
    fn nearest(
        &self,
        place: usize,
        known: Option<Edge>,
        waiting: &mut Vec<(f64, usize)>,
    ) -> Result<Option<Edge>, Fault> {
        let (point, image) = (self.order[place], self.images[place]);
        let own = self.component_of[point as usize];
        let (mut best, mut found) = (known, None);
        waiting.clear();
        waiting.push((self.distance(&self.balls[0], image), 0));
        while let Some((distance, number)) = waiting.pop() {
            let ball = &self.balls[number];
            if ball.component == own || is_beyond(distance, best) {
                continue;
            }
            if ball.second == NONE {
                for place in ball.points[0]..ball.points[1] {
                    let other = self.order[place as usize];
                    if self.component_of[other as usize] == own
                        || is_beyond(self.apart(self.images[place as usize], image), best)
                    {
                        continue;
                    }
                    let edge = Edge::connect([point, other], self.centres, self.cell)?;
                    if best.is_none_or(|best| edge.is_before(&best)) {
                        (best, found) = (Some(edge), Some(edge));
                    }
                }
                continue;
            }
            let halves = [number + 1, ball.second as usize].map(|half| (self.distance(&self.balls[half], image), half));
            // the nearer one is next
            let [near, far] = if halves[0].0 <= halves[1].0 { halves } else { [halves[1], halves[0]] };
            waiting.extend([far, near]);
        }
        Ok(found)
    }

    /// From a ball, at least.
    fn distance(&self, ball: &Ball, image: Vector) -> f64 {
        self.apart(ball.middle, image) - ball.radius
    }

    /// Distance between nearest images.
    fn apart(&self, one: Vector, other: Vector) -> f64 {
        let displacement = minus(one, other);
        let squared = dot(displacement, displacement);
        if squared <= self.cell.lattice().sure() {
            return squared.sqrt();
        }
        let nearest = self.cell.lattice().nearest(displacement);
        dot(nearest, nearest).sqrt()
    }
}

/// Whether it is farther than an edge for sure.
fn is_beyond(distance: f64, edge: Option<Edge>) -> bool {
    let least = distance * (1.0 - ROOM) - ROOM;
    least > 0.0 && edge.is_some_and(|edge| least * least > edge.squared)
}

fn order_of(n: usize) -> Vec<u32> {
    (0..n as u32).collect()
}

/// Orders points so that the points of each ball are adjacent.
fn divide(order: &mut [u32], start: usize, images: &[Vector], balls: &mut Vec<Ball>) {
    let (mut low, mut high) = ([f64::INFINITY; 3], [f64::NEG_INFINITY; 3]);
    for &point in order.iter() {
        for x in 0..3 {
            low[x] = low[x].min(images[point as usize][x]);
            high[x] = high[x].max(images[point as usize][x]);
        }
    }
    let middle = [0, 1, 2].map(|x| 0.5 * (low[x] + high[x]));
    let squared = |point: &u32| {
        let from_middle = minus(images[*point as usize], middle);
        dot(from_middle, from_middle)
    };
    let radius = order.iter().map(squared).fold(0.0, f64::max).sqrt();
    let number = balls.len();
    let points = [start as u32, (start + order.len()) as u32];
    balls.push(Ball { middle, radius, points, second: NONE, component: NONE });
    if order.len() <= UNDIVIDED {
        return;
    }
    let axis = (0..3).max_by(|&x, &y| (high[x] - low[x]).total_cmp(&(high[y] - low[y]))).unwrap_or_default();
    let half = order.len() / 2;
    order.select_nth_unstable_by(half, |&a, &b| images[a as usize][axis].total_cmp(&images[b as usize][axis]));
    let (first, second) = order.split_at_mut(half);
    divide(first, start, images, balls);
    balls[number].second = balls.len() as u32;
    divide(second, start + half, images, balls);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Prim's algorithm: adds the first of all edges that leave the tree, until all points are in the tree.
    fn compare_all_pairs(centres: &[Vector], cell: &PeriodicCell) -> Vec<Edge> {
        let n = centres.len();
        let edge = |a: usize, b: usize| Edge::connect([a as u32, b as u32], centres, cell).unwrap();
        let mut shortest: Vec<Option<Edge>> = (0..n).map(|point| (point > 0).then(|| edge(0, point))).collect();
        let mut edges = Vec::new();
        while let Some(next) = (0..n).filter(|&point| shortest[point].is_some()).min_by(|&a, &b| {
            if shortest[a].unwrap().is_before(&shortest[b].unwrap()) {
                std::cmp::Ordering::Less
            } else {
                std::cmp::Ordering::Greater
            }
        }) {
            edges.extend(shortest[next].take());
            for (point, shortest) in shortest.iter_mut().enumerate() {
                if let Some(known) = *shortest {
                    let other = edge(next, point);
                    *shortest = Some(if other.is_before(&known) { other } else { known });
                }
            }
        }
        edges
    }

    fn sorted(mut edges: Vec<Edge>) -> Vec<Edge> {
        edges.sort_by_key(|edge| edge.points);
        edges
    }

    #[test]
    fn the_tree_is_that_of_all_pairs() {
        let mut state = 24_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        let cells = [
            [[30.0, 0.0, 0.0], [0.0, 40.0, 0.0], [0.0, 0.0, 50.0]],
            [[80.0, 0.0, 0.0], [0.0, 80.0, 0.0], [40.0, 40.0, 56.5]],
            [[31.0, 2.0, 1.0], [73.0, 33.0, 5.0], [-7.0, 5.0, 23.0]],
        ];
        for (cell, periodic) in cells.iter().flat_map(|cell| [(cell, [true; 3]), (cell, [true, true, false])]) {
            let made = PeriodicCell::new(cell, periodic).unwrap();
            for n in [1, 2, 9, 300] {
                let spread: Vec<Vector> = (0..n).map(|_| [0; 3].map(|_| 200.0 * next() - 100.0)).collect();
                // a drop and a few far from it
                let drop =
                    spread.iter().enumerate().map(|(i, at)| if i % 50 == 7 { *at } else { at.map(|x| 0.03 * x) });
                // many edges of the same length, and points at the same place
                let alike = (0..n).map(|i| [i % 7, i / 7 % 5, i / 70].map(f64::from));
                for centres in [spread.clone(), drop.collect(), alike.collect()] {
                    let found = sorted(shortest_tree(&centres, &made).unwrap());
                    assert_eq!(found.len() + 1, centres.len());
                    assert!(found == sorted(compare_all_pairs(&centres, &made)), "{n} points in {cell:?} {periodic:?}");
                }
            }
        }
    }
}
