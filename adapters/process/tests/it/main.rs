//! Tests of the adapter with real programs. `engine.py` is the program and its engine, and a mode makes it
//! hostile.

mod behaviour;
mod ending;
mod hostile;
mod world;
