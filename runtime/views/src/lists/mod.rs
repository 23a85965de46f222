//! Lists: declared columns, tables, filters, facets, links between pages.

pub(crate) mod audit;
pub(crate) mod chips;
pub(crate) mod column;
pub(crate) mod declaration;
pub(crate) mod executions;
pub(crate) mod facets;
pub(crate) mod filter;
pub(crate) mod focus;
pub(crate) mod groups;
pub(crate) mod list;
pub(crate) mod news;
pub(crate) mod observations;
pub(crate) mod page_links;
pub(crate) mod picker;
pub(crate) mod row_actions;
pub(crate) mod row_menus;
pub(crate) mod search;
pub(crate) mod suggest;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod trace_line;
pub(crate) mod trace_rows;
