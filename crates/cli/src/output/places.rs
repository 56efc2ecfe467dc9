//! Every column names a place that exists in the type the server writes: a field renamed in `model` fails here and
//! not on an operator's screen.

use model::api::{
    AllocationView, AuditRow, AuditVerdict, BehindView, CertificateView, Enrolment, ImageView, KeyView, MemberView,
    NodeView, PhaseView, ProjectAuditRow, ProjectView, QuotaView, SkuView, SlotProofView, SlotView, TaskTypeView,
    TaskView, TokenView, TransitionView, TrustKeyView, TrustView, UserView, WhoAmI,
};
use model::task::health_probe;
use model::task::topology_discover::CandidateSlot;
use schemars::{JsonSchema, schema_for};
use serde_json::Value;

use super::column::View;
use crate::{allocation, audit, auth, image, key, node, project, sku, slot, task, thread, token, trust, user};

/// The schemas that `schema` may be: behind a reference, or one of several.
fn unfold<'a>(root: &'a Value, schema: &'a Value) -> Vec<&'a Value> {
    if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
        let target = root
            .pointer(name.trim_start_matches('#'))
            .expect("a reference that leads somewhere");
        return unfold(root, target);
    }
    let any = ["anyOf", "oneOf", "allOf"]
        .iter()
        .find_map(|word| schema.get(word)?.as_array());
    match any {
        Some(choices) => choices.iter().flat_map(|choice| unfold(root, choice)).collect(),
        None => vec![schema],
    }
}

fn exists(root: &Value, schema: &Value, path: &[&str]) -> bool {
    let Some((step, rest)) = path.split_first() else {
        return true;
    };
    unfold(root, schema)
        .into_iter()
        .any(|schema| match (schema.get("properties"), schema.get("items")) {
            (Some(fields), _) => fields.get(step).is_some_and(|field| exists(root, field, rest)),
            (None, Some(items)) => exists(root, items, path),
            (None, None) => false,
        })
}

fn missing<T: JsonSchema>(view: &View) -> Vec<String> {
    let root = schema_for!(T).to_value();
    let places = view
        .columns
        .iter()
        .flat_map(|column| column.path.split(".."))
        .chain([view.key]);
    places
        .filter(|place| !exists(&root, &root, &place.split('.').collect::<Vec<_>>()))
        .map(|place| format!("{}: {place}", T::schema_name()))
        .collect()
}

#[test]
fn every_column_names_a_place_that_exists() {
    let missing = [
        missing::<AllocationView>(&allocation::VIEW),
        missing::<TransitionView>(&allocation::TRANSITIONS),
        missing::<ProjectView>(&project::VIEW),
        missing::<MemberView>(&project::MEMBERS),
        missing::<QuotaView>(&project::QUOTA),
        missing::<SkuView>(&sku::VIEW),
        missing::<KeyView>(&key::VIEW),
        missing::<NodeView>(&node::VIEW),
        missing::<CertificateView>(&node::CERTIFICATES),
        missing::<Enrolment>(&node::ENROLMENT),
        missing::<TaskView>(&task::VIEW),
        missing::<SlotView>(&slot::VIEW),
        missing::<SlotProofView>(&slot::PROOFS),
        missing::<CandidateSlot>(&slot::CANDIDATES),
        missing::<PhaseView>(&thread::PHASES),
        missing::<TaskTypeView>(&task::TYPES),
        missing::<health_probe::Output>(&thread::FINDINGS),
        missing::<ImageView>(&image::VIEW),
        missing::<TrustView>(&trust::DOCUMENTS),
        missing::<TrustKeyView>(&trust::KEYS),
        missing::<BehindView>(&trust::BEHIND),
        missing::<AuditRow>(&audit::VIEW),
        missing::<ProjectAuditRow>(&audit::OF_PROJECT),
        missing::<AuditVerdict>(&audit::VERDICT),
        missing::<TokenView>(&token::VIEW),
        missing::<WhoAmI>(&auth::VIEW),
        missing::<UserView>(&user::VIEW),
    ]
    .concat();
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn a_place_that_does_not_exist_is_noticed() {
    const WRONG: View = View {
        columns: &[super::column::col("x", "certificate.colour", super::column::Kind::Text)],
        key: "id",
    };
    assert_eq!(missing::<NodeView>(&WRONG), ["NodeView: certificate.colour"]);
}
