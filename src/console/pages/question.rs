//! The open questions of a task as cards, each with the form that answers it if the visitor may. The text of
//! a question comes from a job or a config: it is shown as text.

use maud::{Markup, html};
use serde_json::Map;
use taskbridge_sdk::Ask;

use super::{Request, task_address};
use crate::console::html::{form, layout, pieces};
use crate::tasks::service::{Actor as _, TaskOperation};
use crate::tasks::task::{Task, TaskQuestion};

/// Renders the open questions of a task. `is_linked` adds a link to the task.
pub(super) fn cards(request: &Request<'_>, task: &Task, is_linked: bool) -> Markup {
    let refusal = request.caller().may(TaskOperation::Answer, task).err();
    html! {
        @for question in task.open_questions() {
            article.card.asks id={ "question-" (task.id) "-" (question.key) } {
                @if is_linked {
                    h3 { a href=(task_address(&task.id)) { bdi { (pieces::one_line(&task.tool, 100)) } } }
                }
                p { strong { (pieces::clean(&question.question.message)) } }
                p.hint { "Asked " (pieces::ago(question.at, request.now)) }
                @match &refusal {
                    Some(why) => p.note { (why) },
                    None => (answer_form(request, task, question)),
                }
            }
        }
    }
}

fn answer_form(request: &Request<'_>, task: &Task, question: &TaskQuestion) -> Markup {
    let action = format!("{}/answer", task_address(&task.id));
    let id = format!("answer-{}-{}", task.id, question.key);
    html! {
        // Live updates leave the form alone, so that they do not remove what is typed.
        form id=(id) method="post" action=(action) hx-morph-skip {
            (layout::form_token(request.visitor))
            input type="hidden" name="question" value=(question.key);
            @match &question.question.ask {
                Ask::Form(schema) => {
                    (form::fields(schema, &Map::new(), |_| false, &id))
                    div.row {
                        button.primary type="submit" name="action" value="accept" { "Answer" }
                        button type="submit" name="action" value="decline" formnovalidate { "Decline" }
                    }
                }
                Ask::Url(address) => {
                    p { (pieces::external_link(address, "Open the page of the question")) }
                    div.row {
                        button.primary type="submit" name="action" value="accept" { "I agree to visit it" }
                        button type="submit" name="action" value="decline" { "Decline" }
                    }
                }
                Ask::Sampling(_) => p.note { "Only a client with a model can answer this." },
                Ask::Roots => p.note { "Only a client with roots can answer this." },
            }
        }
    }
}
