//! Frames of lists, and answers that say no more than that something was done.

use perpend_domain::list::{NumberedPage, Paging};
use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder};
use utoipa::openapi::{Ref, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// All of a list.
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
    /// Which page this is.
    pub meta: PageMeta,
}

/// Which page of how many.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PageMeta {
    /// From 1.
    pub page: u32,
    /// Rows per page.
    pub limit: u32,
    /// On all pages.
    pub total_items: u64,
    /// How many pages there are.
    pub total_pages: u64,
}

impl PageMeta {
    /// Of a page of so many items in all.
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
    /// A page, each row as `view` shows it.
    pub fn new<R>(paging: Paging, found: &NumberedPage<R>, view: impl FnMut(&R) -> T) -> Self {
        Self {
            data: found.items.iter().map(view).collect(),
            meta: PageMeta::new(paging, found.n_total),
        }
    }
}

/// A part of a list that goes on behind a cursor.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CursorList<T> {
    /// In the order of the list.
    pub data: Vec<T>,
    /// Where it goes on.
    pub meta: CursorMeta,
}

/// Where a list goes on.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct CursorMeta {
    /// To be sent as `cursor`; absent at the end of the list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Rows per part, where the list says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// Something was done.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Confirmation {
    /// What, for people.
    pub message: String,
}

impl Confirmation {
    /// With a sentence for people.
    #[must_use]
    pub fn new(message: &str) -> Self {
        Self { message: message.to_owned() }
    }
}

/// What something is known by from now on, or was until now.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct IdResponse<T> {
    /// Its id.
    pub id: T,
}

/// A schema and what it refers to, by name.
type Named = Vec<(String, RefOr<Schema>)>;

/// A reference to the schema of `T`, which is put among those that have a name.
fn named<T: ToSchema>(named: &mut Named) -> RefOr<Schema> {
    T::schemas(named);
    named.push((T::name().into_owned(), T::schema()));
    refer::<T>()
}

fn refer<T: ToSchema>() -> RefOr<Schema> {
    Ref::from_schema_name(T::name()).into()
}

/// What a frame around `T` says of itself. The derived code forgets the schema of a parameter.
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

frame!(CompleteList, "AllOf", "data": list);
frame!(NumberedList, "PageOf", "data": list, "meta": PageMeta);
frame!(CursorList, "PartOf", "data": list, "meta": CursorMeta);
frame!(IdResponse, "KnownBy", "id": one);
