//! The time of each question where very many rows wait for one client.

use super::{PostgresBackend, client};
use crate::fixture::Backend as _;
use crate::large::{COLUMNS, STATE, ask_everything, clients, rows};

#[tokio::test]
async fn no_question_takes_long_in_a_large_table() {
    let (backend, rows) = (PostgresBackend::new(), rows());
    let stores = backend.open().await;
    let other = client(&backend.options).await;
    let bytes = |hex: &str| format!("'\\x{hex}'::bytea");
    for (name, rows, document, next) in
        clients(rows, bytes, "convert_to(lpad((n / 20)::text, 16, '0'), 'UTF8')")
    {
        let insert = format!(
            "INSERT INTO stash ({COLUMNS})
            SELECT 'd', convert_to('{name}-' || n, 'UTF8'), 1, 3, n, 'live', 't', 0, n, n, 300, n, {STATE}, 1, 0, n, n,
                '{name}', {document}, {next}, repeat('x', 300)::bytea
            FROM generate_series(1, 2 * {rows}) AS n"
        );
        other.batch_execute(&insert).await.unwrap();
    }
    other.batch_execute("VACUUM ANALYZE stash").await.unwrap();
    ask_everything(stores, rows).await;
}
