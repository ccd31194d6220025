//! Cuts the uncompressed kernel out of a bzImage.
//!
//! QEMU boots an uncompressed `vmlinux` directly, which spares the guest the decompression: seconds under emulation.
//! The header is the kernel's `Documentation/arch/x86/boot.rst`, "The Real-Mode Kernel Header".

use std::ops::Range;

const SETUP_SECTORS: usize = 0x1f1;
const MAGIC: usize = 0x202;
const VERSION: usize = 0x206;
const PAYLOAD_OFFSET: usize = 0x248;
const PAYLOAD_LENGTH: usize = 0x24c;
const SECTOR: usize = 512;
/// First version of the protocol with the payload's place.
const FIRST_VERSION_WITH_PAYLOAD: u16 = 0x0208;
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// The compressed stream is followed by the uncompressed size, four bytes.
const SIZE_SUFFIX: usize = 4;

/// The uncompressed ELF file in `image`, or the fault of `image`.
pub fn vmlinux(image: &[u8]) -> Result<Vec<u8>, String> {
    let payload = image.get(payload(image)?).ok_or("its payload lies outside the file")?;
    if !payload.starts_with(&ZSTD_MAGIC) {
        return Err("its payload is not compressed by zstd".into());
    }
    let (stream, size) = payload.split_at(payload.len().saturating_sub(SIZE_SUFFIX));
    let size = u32::from_le_bytes(size.try_into().map_err(|_| "its payload is empty")?);
    let elf = zstd::bulk::decompress(stream, size as usize).map_err(|error| format!("decompressing it: {error}"))?;
    if !elf.starts_with(b"\x7fELF") {
        return Err("its payload is not an ELF file".into());
    }
    Ok(elf)
}

fn payload(image: &[u8]) -> Result<Range<usize>, String> {
    if image.get(MAGIC..MAGIC + 4) != Some(b"HdrS") {
        return Err("it is not a Linux bzImage".into());
    }
    let word = |at: usize| -> Result<u32, String> {
        let bytes = image.get(at..at + 4).ok_or("it is too short")?;
        Ok(u32::from_le_bytes(bytes.try_into().expect("four bytes")))
    };
    let version = word(VERSION)? as u16;
    if version < FIRST_VERSION_WITH_PAYLOAD {
        return Err(format!("its boot protocol {version:#x} does not say where the payload is"));
    }
    // Zero means four, for the sake of very old loaders.
    let setup = match image[SETUP_SECTORS] {
        0 => 4,
        sectors => usize::from(sectors),
    };
    let start = (setup + 1) * SECTOR + word(PAYLOAD_OFFSET)? as usize;
    Ok(start..start + word(PAYLOAD_LENGTH)? as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(content: &[u8]) -> Vec<u8> {
        let mut payload = zstd::bulk::compress(content, 1).unwrap();
        payload.extend((content.len() as u32).to_le_bytes());
        let mut image = vec![0; 2 * SECTOR + 16];
        image[SETUP_SECTORS] = 1;
        image[MAGIC..MAGIC + 4].copy_from_slice(b"HdrS");
        image[VERSION..VERSION + 2].copy_from_slice(&0x20f_u16.to_le_bytes());
        image[PAYLOAD_OFFSET..PAYLOAD_OFFSET + 4].copy_from_slice(&16_u32.to_le_bytes());
        image[PAYLOAD_LENGTH..PAYLOAD_LENGTH + 4].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        image.extend(payload);
        image
    }

    #[test]
    fn the_payload_comes_out() {
        let elf = [b"\x7fELF".as_slice(), &[7; 10_000]].concat();
        assert_eq!(vmlinux(&image(&elf)).unwrap(), elf);
    }

    #[test]
    fn other_files_are_refused() {
        assert!(vmlinux(b"short").unwrap_err().contains("bzImage"));
        assert!(vmlinux(&image(b"not elf")).unwrap_err().contains("ELF"));
        let mut truncated = image(b"\x7fELF");
        truncated.truncate(2 * SECTOR + 18);
        assert!(vmlinux(&truncated).unwrap_err().contains("outside"));
    }
}
