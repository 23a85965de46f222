//! OpenAPI schemas of the types of this module.

use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::text_search::search::SearchField;

impl PartialSchema for SearchField {
    fn schema() -> RefOr<Schema> {
        let names = Self::ALL.iter().map(|value| value.as_str());
        let text = ObjectBuilder::new().schema_type(Type::String);
        text.enum_values(Some(names)).build().into()
    }
}

impl ToSchema for SearchField {}
