//! Real nodes.
