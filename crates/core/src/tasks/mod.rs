//! The core: durable tasks over jobs. [`task`] defines the row of a task, and [`machine`] its state machine.
//! [`store`] defines the storage traits. [`task_writer`] writes changes of rows, [`reconciler`] runs the
//! pending actions, and [`service`] has the operations that every protocol generation uses. The core must not
//! depend on a transport, a database or an engine, nor on a protocol; only [`asking`] knows the forms that
//! MCP allows. Of this workspace it imports only the sdk and the clock.

pub mod asking;
pub mod audit;
pub mod history;
pub mod machine;
pub mod meter;
pub mod notices;
pub mod pace;
pub mod reconciler;
pub mod service;
pub mod store;
pub mod task;
pub mod task_writer;
pub mod tools;
pub mod watch;
