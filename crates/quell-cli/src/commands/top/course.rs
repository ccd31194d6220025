//! Values over time, from the first one to the last, in bounded memory.

/// Points that are kept at most: as wide as a large terminal.
const MOST: usize = 512;

/// Values and their times. When there are many, neighbours become one.
#[derive(Clone, Debug, PartialEq)]
pub struct Course<T> {
    points: Vec<(u64, T)>,
    /// Values that a point stands for.
    stride: usize,
    /// Values in the last point, while they are fewer than that.
    partly: usize,
}

impl<T> Default for Course<T> {
    fn default() -> Course<T> {
        Course { points: Vec::new(), stride: 1, partly: 0 }
    }
}

impl<T: Clone> Course<T> {
    /// Adds a value; two neighbours become what `one` makes of them.
    pub fn push(&mut self, at_ns: u64, value: T, one: impl Fn(&T, &T) -> T) {
        let before = if self.partly > 0 { self.points.pop() } else { None };
        let value = before.map_or(value.clone(), |(_, before)| one(&before, &value));
        self.points.push((at_ns, value));
        self.partly = (self.partly + 1) % self.stride;
        if self.partly == 0 && self.points.len() > MOST {
            let halved = self.points.chunks(2).map(|pair| match pair {
                [(_, a), (at, b)] => (*at, one(a, b)),
                [single, ..] => single.clone(),
                [] => unreachable!("chunks are not empty"),
            });
            self.points = halved.collect();
            self.stride *= 2;
        }
    }

    /// All of them, the oldest first.
    pub fn points(&self) -> &[(u64, T)] {
        &self.points
    }

    /// The last one at this time, or before.
    pub fn at(&self, ns: u64) -> Option<&T> {
        let after = self.points.partition_point(|(at, _)| *at <= ns);
        after.checked_sub(1).map(|place| &self.points[place].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_course_keeps_its_beginning_its_end_and_its_peaks() {
        let mut course = Course::default();
        for at in 0..100_000u64 {
            course.push(at, if at == 4321 { 9.0 } else { 1.0 }, |a: &f64, b: &f64| a.max(*b));
            assert!(course.points().len() <= MOST + 1);
        }
        let (first, last) = (course.points()[0].0, course.points().last().unwrap().0);
        assert!(first < 1_000 && last == 99_999, "{first} to {last}");
        assert!(course.points().len() > MOST / 4, "{}", course.points().len());
        assert_eq!(course.points().iter().filter(|(_, value)| *value == 9.0).count(), 1, "the peak");
    }

    #[test]
    fn a_value_holds_until_the_next() {
        let mut course = Course::default();
        assert_eq!(course.at(7), None);
        course.push(10, 'a', |_, b| *b);
        course.push(20, 'b', |_, b| *b);
        assert_eq!([9, 10, 19, 25].map(|ns| course.at(ns).copied()), [None, Some('a'), Some('a'), Some('b')]);
    }
}
