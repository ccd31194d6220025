use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn frame() -> impl Strategy<Value = Frame> {
    let length = prop_oneof![Just(0), 0..40_usize, FIRST - 12..FIRST + 12, 2 * FIRST - 20..2 * FIRST + 20];
    let body =
        (length, any::<u8>()).prop_map(|(length, first)| (0..length).map(|at| first ^ (at % 251) as u8).collect());
    (1..=2_u32, any::<u32>(), any::<u8>(), any::<u8>(), body)
        .prop_map(|(connection, stream, kind, flags, body)| Frame { connection, stream, kind, flags, body })
}

/// All messages of these bytes, given in pieces of these lengths.
fn decoded(bytes: &[u8], pieces: &[usize]) -> Result<Vec<Frame>, Malformed> {
    let (mut decoder, mut frames, mut rest) = (Decoder::default(), Vec::new(), bytes);
    for piece in pieces.iter().cycle() {
        let (mut input, after) = rest.split_at((*piece).min(rest.len()));
        while let Some(frame) = decoder.next(&mut input)? {
            frames.push(frame);
        }
        rest = after;
        if rest.is_empty() {
            break;
        }
    }
    Ok(frames)
}

proptest! {
    #[test]
    fn messages_come_back_whatever_the_pieces(frames in vec(frame(), 0..8), pieces in vec(1..6000_usize, 1..8)) {
        let bytes: Vec<u8> = frames.iter().flat_map(|frame| frame.encode().unwrap()).collect();
        prop_assert_eq!(decoded(&bytes, &pieces).unwrap(), frames);
    }

    /// Each message alone is cut by the multiplexer at every place, and the two connections' frames alternate.
    #[test]
    fn messages_come_back_wherever_the_multiplexer_cuts(
        (ours, theirs) in (vec(frame(), 1..4), vec(frame(), 1..4)), cut in 1..64_usize, piece in 1..5000_usize,
    ) {
        let stream = |frames: &[Frame]| -> Vec<u8> {
            frames.iter().flat_map(|it| {
                let mut bytes = (it.body.len() as u32).to_be_bytes().to_vec();
                bytes.extend(it.stream.to_be_bytes());
                bytes.extend([it.kind, it.flags]);
                bytes.extend(&it.body);
                bytes
            }).collect()
        };
        let (ours, theirs): (Vec<Frame>, Vec<Frame>) = (
            ours.into_iter().map(|it| Frame { connection: PLUGIN, ..it }).collect(),
            theirs.into_iter().map(|it| Frame { connection: RUNTIME, ..it }).collect(),
        );
        let (first, second) = (stream(&ours), stream(&theirs));
        let (mut first, mut second) = (first.chunks(cut), second.chunks(cut + 1));
        let mut bytes = Vec::new();
        loop {
            let (one, two) = (first.next(), second.next());
            for (connection, chunk) in [(PLUGIN, one), (9, Some(&b"of no one"[..])), (RUNTIME, two)] {
                if let Some(chunk) = chunk {
                    bytes.extend(connection.to_be_bytes());
                    bytes.extend((chunk.len() as u32).to_be_bytes());
                    bytes.extend(chunk);
                }
            }
            if one.is_none() && two.is_none() {
                break;
            }
        }
        let (plugin, runtime): (Vec<Frame>, Vec<Frame>) =
            decoded(&bytes, &[piece]).unwrap().into_iter().partition(|frame| frame.connection == PLUGIN);
        prop_assert_eq!(plugin, ours);
        prop_assert_eq!(runtime, theirs);
    }

    #[test]
    fn any_bytes_are_messages_or_an_error_and_hold_no_more_than_came(
        bytes in vec(prop_oneof![Just(0_u8), Just(1), Just(2), any::<u8>()], 0..400), piece in 1..100_usize,
    ) {
        let mut decoder = Decoder::default();
        'all: for chunk in bytes.chunks(piece) {
            let mut input = chunk;
            loop {
                match decoder.next(&mut input) {
                    Ok(Some(frame)) => prop_assert!(frame.body.len() <= bytes.len()),
                    Ok(None) => break,
                    Err(_) => break 'all,
                }
            }
            prop_assert!(input.is_empty());
        }
        prop_assert!(decoder.plugin.0.len() + decoder.runtime.0.len() <= bytes.len());
    }

    /// The reader on the other side is Go's `bufio.Reader` of 4096 bytes over frames that it must take whole: a frame is lost when it is
    /// longer than the room there is for it, which is the buffer, or what the message still lacks where that is more.
    #[test]
    fn no_frame_is_longer_than_what_gos_reader_has_room_for(frame in frame()) {
        let bytes = frame.encode().unwrap();
        let (mut rest, mut lacks) = (&bytes[..], MESSAGE_HEAD + frame.body.len());
        while !rest.is_empty() {
            let length = word(&rest[4..8]) as usize;
            let begins = lacks == MESSAGE_HEAD + frame.body.len();
            let room = if begins { FIRST } else { FIRST.max(lacks) };
            prop_assert!(length <= room, "{} into {}", length, room);
            lacks -= length;
            rest = &rest[HEAD + length..];
        }
        prop_assert_eq!(lacks, 0);
    }
}

#[test]
fn what_is_too_long_is_refused_before_it_is_kept() {
    let long = Frame { connection: PLUGIN, stream: 1, kind: REQUEST, flags: 0, body: vec![0; MOST_BODY + 1] };
    assert_eq!(long.encode(), Err(Malformed::Body(MOST_BODY + 1)));
    let mut frame = Vec::from([0, 0, 0, 1]);
    frame.extend((MOST_PAYLOAD as u32 + 1).to_be_bytes());
    assert_eq!(decoded(&frame, &[8]), Err(Malformed::Payload(MOST_PAYLOAD + 1)));
    let message = [0, 0, 0, 1, 0, 0, 0, 10, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1, 1, 0];
    assert_eq!(decoded(&message, &[100]), Err(Malformed::Body(u32::MAX as usize)));
}
