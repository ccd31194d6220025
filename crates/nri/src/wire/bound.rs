//! An upper bound on what a message takes when it is decoded.
//!
//! An empty element of a list is two bytes on the wire and hundreds in memory. So the fields of a message are counted before it is
//! decoded. (The first entry of a map takes more than is counted for it: by a factor of two in the worst message.) Which fields are messages is not known here: every field with a length is taken for one, as far as it reads like one.

/// Memory of an element of the outermost lists: pods and containers, their maps and lists empty.
const OUTER: usize = 2048;
/// Memory of a deeper element.
const INNER: usize = 112;
/// Depth of NRI's messages, and a few levels more.
const DEEPEST: usize = 8;

/// Upper bound on the memory of this message, decoded, in bytes. `None`: it is no message.
pub fn decoded(message: &[u8]) -> Option<usize> {
    let mut size = message.len();
    is_whole(message, 0, &mut size).then_some(size)
}

/// Adds what a message's fields take, up to the first that is none; is it whole?
fn is_whole(mut rest: &[u8], depth: usize, size: &mut usize) -> bool {
    while !rest.is_empty() {
        let Some(tag) = varint(&mut rest) else { return false };
        let length = match tag & 7 {
            _ if tag >> 3 == 0 => return false,
            0 => match varint(&mut rest) {
                Some(_) => 0,
                None => return false,
            },
            1 => 8,
            2 => match varint(&mut rest).and_then(|length| usize::try_from(length).ok()) {
                Some(length) => length,
                None => return false,
            },
            5 => 4,
            _ => return false,
        };
        if length > rest.len() {
            return false;
        }
        let (field, after) = rest.split_at(length);
        if tag & 7 == 2 {
            *size += if depth == 0 { OUTER } else { INNER };
            if depth < DEEPEST {
                is_whole(field, depth + 1, size);
            }
        }
        rest = after;
    }
    true
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for (at, byte) in rest.iter().enumerate().take(10) {
        value |= u64::from(byte & 127) << (7 * at);
        if byte & 128 == 0 {
            *rest = &rest[at + 1..];
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::mem::size_of;

    use prost::Message;

    use super::*;
    use crate::message::service::Synchronize;
    use crate::message::*;

    #[test]
    fn no_element_is_larger_than_its_bound() {
        let outer = size_of::<Container>().max(size_of::<PodSandbox>());
        assert!(outer <= OUTER, "{outer}");
        let inner = [size_of::<Mount>(), size_of::<Hook>(), size_of::<LinuxDevice>(), size_of::<LinuxSyscall>()];
        let more = [size_of::<LinuxDeviceCgroup>(), size_of::<LinuxSeccompArg>(), size_of::<PosixRlimit>()];
        assert!(inner.iter().chain(&more).all(|size| *size <= INNER), "{inner:?} {more:?}");
        assert!(3 * size_of::<ContainerUpdate>() <= OUTER, "{}", size_of::<ContainerUpdate>());
    }

    #[test]
    fn empty_elements_count_for_what_they_take() {
        let bytes =
            Synchronize { containers: vec![Container::default(); 1000], ..Synchronize::default() }.encode_to_vec();
        assert_eq!(bytes.len(), 2000);
        assert_eq!(decoded(&bytes), Some(2000 + 1000 * OUTER));
    }

    #[test]
    fn a_node_of_250_containers_with_60_long_variables_each_takes_less_than_a_third_of_what_is_allowed() {
        let env = (0..60).map(|at| format!("A_RATHER_LONG_VARIABLE_{at}={at:0128}")).collect();
        let container = Container { id: "0123456789abcdef".into(), env, ..Container::default() };
        let bytes = Synchronize { containers: vec![container; 250], ..Synchronize::default() }.encode_to_vec();
        let bound = decoded(&bytes).unwrap();
        assert!(bound > bytes.len() && bound < 64 * (1 << 20) / 3, "{bound} of {}", bytes.len());
    }

    #[test]
    fn what_is_cut_or_nested_endlessly_is_no_message_or_bounded() {
        assert_eq!(decoded(&[0x0a, 5, 1]), None);
        assert_eq!(decoded(&[0xff; 12]), None);
        assert_eq!(decoded(&[]), Some(0));
        let nested = (0..1000).fold(Vec::new(), |inner: Vec<u8>, _| {
            let mut bytes = vec![0x0a];
            prost::encoding::encode_varint(inner.len() as u64, &mut bytes);
            bytes.extend(inner);
            bytes
        });
        assert!(decoded(&nested).unwrap() < nested.len() + OUTER + DEEPEST * INNER + INNER);
    }
}
