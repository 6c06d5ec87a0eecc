//! The meanings of operations, by family.

pub mod batch_norm;
pub mod control;
pub mod custom_call;
pub mod elementwise;
pub mod index;
pub mod integers;
pub mod linalg;
pub mod order;
pub mod primitive;
pub mod random;
pub mod products;
pub mod reduce;
pub mod shape;
pub mod special;
pub mod while_loop;
pub mod window;
