//! Envelopes of lists, and confirmations.

use perpend_domain::list::{NumberedPage, Paging};
use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder};
use utoipa::openapi::{Ref, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// A complete list.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CompleteList<T> {
    /// In the order of the list.
    pub data: Vec<T>,
}

/// A numbered page of a list.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NumberedList<T> {
    /// In the order of the list.
    pub data: Vec<T>,
    /// The page number and size.
    pub meta: PageMeta,
}

/// The position of a page.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PageMeta {
    /// From 1.
    pub page: u32,
    /// Rows per page.
    pub limit: u32,
    /// Number of items on all pages.
    pub total_items: u64,
    /// Number of pages.
    pub total_pages: u64,
}

impl PageMeta {
    /// The position of a page in a list of `n_total` items.
    #[must_use]
    pub fn new(paging: Paging, n_total: u64) -> Self {
        Self {
            page: paging.page,
            limit: paging.limit,
            total_items: n_total,
            total_pages: n_total.div_ceil(u64::from(paging.limit.max(1))),
        }
    }
}

impl<T> NumberedList<T> {
    /// A page of rows converted by `view`.
    pub fn new<R>(paging: Paging, found: &NumberedPage<R>, view: impl FnMut(&R) -> T) -> Self {
        Self {
            data: found.items.iter().map(view).collect(),
            meta: PageMeta::new(paging, found.n_total),
        }
    }
}

/// A page of a list with a cursor.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CursorList<T> {
    /// In the order of the list.
    pub data: Vec<T>,
    /// The cursor of the next page.
    pub meta: CursorMeta,
}

/// The cursor of the next page.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct CursorMeta {
    /// The value for `cursor`; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Rows per page, if the list reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// The confirmation of an operation.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Confirmation {
    /// Human-readable.
    pub message: String,
}

impl Confirmation {
    /// A confirmation with a human-readable message.
    #[must_use]
    pub fn new(message: &str) -> Self {
        Self { message: message.to_owned() }
    }
}

/// The id of a created, changed or deleted resource.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct IdResponse<T> {
    /// Its id.
    pub id: T,
}

/// Schemas by name.
type Named = Vec<(String, RefOr<Schema>)>;

/// A reference to the schema of `T`, which is added to the named schemas.
fn named<T: ToSchema>(named: &mut Named) -> RefOr<Schema> {
    T::schemas(named);
    named.push((T::name().into_owned(), T::schema()));
    refer::<T>()
}

fn refer<T: ToSchema>() -> RefOr<Schema> {
    Ref::from_schema_name(T::name()).into()
}

/// The schema of an envelope of `T`. The derived code omits the schema of the type parameter.
macro_rules! frame {
    ($frame:ident, $name:literal, $data:literal: $of:expr $(, $meta:literal: $Meta:ty)?) => {
        impl<T: ToSchema> PartialSchema for $frame<T> {
            fn schema() -> RefOr<Schema> {
                let frame = ObjectBuilder::new().property($data, $of(refer::<T>())).required($data);
                $(let frame = frame.property($meta, refer::<$Meta>()).required($meta);)?
                frame.build().into()
            }
        }

        impl<T: ToSchema> ToSchema for $frame<T> {
            fn name() -> Cow<'static, str> {
                Cow::Owned(format!(concat!($name, "{}"), T::name()))
            }

            fn schemas(schemas: &mut Named) {
                named::<T>(schemas);
                $(named::<$Meta>(schemas);)?
            }
        }
    };
}

fn list(of: RefOr<Schema>) -> RefOr<Schema> {
    ArrayBuilder::new().items(of).build().into()
}

fn one(of: RefOr<Schema>) -> RefOr<Schema> {
    of
}

frame!(CompleteList, "ListOf", "data": list);
frame!(NumberedList, "PageOf", "data": list, "meta": PageMeta);
frame!(CursorList, "CursorPageOf", "data": list, "meta": CursorMeta);
frame!(IdResponse, "ResponseWith", "id": one);
