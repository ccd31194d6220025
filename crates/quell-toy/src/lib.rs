//! A toy host to test policies on: no kernel model, virtual time.
