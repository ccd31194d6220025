//! The nouns of Quell and the contract between policies and hosts. No I/O.
