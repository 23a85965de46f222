//! Permissions of operations, keys and roles. One table applies to the API, the OTLP paths, the pages, their documents and
//! their tests.

use std::fmt;
use std::str::FromStr;

/// The scope of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// A key pair of a project; the administrator in the selected project; a session opened with a key pair.
    Full,
    /// A key pair of a project that reads everything and changes nothing.
    Read,
    /// A key pair of a project that sends telemetry and scores.
    Ingest,
    /// The public key of a project without its secret key, as used in browsers of end users.
    PublicHalf,
    /// A key pair of an organization. It gives no access to the data of projects.
    Organization,
}

/// The level on which a permission applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PermissionLevel {
    /// In the project that the key belongs to.
    Project,
    /// In the organization that the key belongs to, and on its projects as resources.
    Organization,
    /// On the own account of a signed-in person.
    Account,
}

/// The role of a person in an organization or a project.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// All operations, including those on the organization.
    Owner,
    /// All operations in projects and on members.
    Admin,
    /// Work in projects.
    Member,
    /// Read access to projects.
    Viewer,
    /// No access. In an organization: access only to projects with a role of their own.
    None,
}

macro_rules! lowest_role {
    (NoRole) => {
        Option::None
    };
    ($role:ident) => {
        Some(Role::$role)
    };
}

// Name, level, scopes of keys, lowest role, sentence.
macro_rules! permissions {
    ($($variant:ident, $name:literal, $level:ident, [$($scope:ident),*], $role:ident, $covers:literal;)*) => {
        /// The right to perform a group of operations.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Permission { $(#[doc = $covers] $variant,)* }

        impl Permission {
            /// All permissions, in the order of the reference page.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name in documents and responses, such as `trace.read`.
            #[must_use]
            pub const fn name(self) -> &'static str { match self { $(Self::$variant => $name,)* } }

            /// The operations that it allows, as a sentence.
            #[must_use]
            pub const fn covers(self) -> &'static str { match self { $(Self::$variant => $covers,)* } }

            /// Whether the password must have been entered recently, because a change is hard to undo or opens the project to
            /// others.
            #[must_use]
            pub const fn needs_fresh_sign_in(self) -> bool {
                matches!(
                    self,
                    Self::KeyWrite | Self::MemberWrite | Self::OrgMemberWrite | Self::ExportWrite | Self::ProjectDelete
                )
            }

            /// Whether the role of a member in the project decides, also about operations of the organization.
            #[must_use]
            pub const fn is_decided_in_project(self) -> bool {
                matches!(self, Self::KeyRead | Self::KeyWrite) || matches!(self.level(), PermissionLevel::Project)
            }

            /// The level on which it applies.
            #[must_use]
            pub const fn level(self) -> PermissionLevel { match self { $(Self::$variant => PermissionLevel::$level,)* } }

            const fn scopes(self) -> &'static [Scope] { match self { $(Self::$variant => &[$(Scope::$scope),*],)* } }

            /// The lowest role that holds it; absent if only keys hold it.
            #[must_use]
            pub const fn lowest_role(self) -> Option<Role> { match self { $(Self::$variant => lowest_role!($role),)* } }
        }
    };
}

permissions! {
    TraceRead, "trace.read", Project, [Full, Read], Viewer, "Read traces, observations and sessions, in lists and one by one.";
    ContentRead, "content.read", Project, [Full, Read], Viewer, "Read media.";
    MetricRead, "metric.read", Project, [Full, Read], Viewer, "Query metrics.";
    IngestWrite, "ingest.write", Project, [Full, Ingest], Member, "Send telemetry over OTLP or in batches, and upload media.";
    TraceMark, "trace.mark", Project, [Full], Member, "Bookmark and tag traces.";
    TraceDelete, "trace.delete", Project, [Full], Admin, "Delete traces.";
    ScoreRead, "score.read", Project, [Full, Read], Viewer, "Read scores.";
    ScoreWrite, "score.write", Project, [Full, Ingest, PublicHalf], Member, "Write scores. A public key alone can change only scores that it created.";
    ScoreDelete, "score.delete", Project, [Full], Member, "Delete scores.";
    ScoreConfigRead, "score-config.read", Project, [Full, Read], Viewer, "Read score configs.";
    ScoreConfigWrite, "score-config.write", Project, [Full], Member, "Create and change score configs.";
    QueueRead, "queue.read", Project, [Full, Read], Viewer, "Read annotation queues.";
    QueueWork, "queue.work", Project, [Full], Member, "Mark items of annotation queues as completed.";
    QueueWrite, "queue.write", Project, [Full], Member, "Create annotation queues, add and delete items, assign members.";
    CommentRead, "comment.read", Project, [Full, Read], Viewer, "Read comments.";
    CommentWrite, "comment.write", Project, [Full], Member, "Write comments.";
    DatasetRead, "dataset.read", Project, [Full, Read], Viewer, "Read datasets, their items and versions.";
    DatasetWrite, "dataset.write", Project, [Full], Member, "Create, change, import and delete datasets and their items.";
    ExperimentRead, "experiment.read", Project, [Full, Read], Viewer, "Read experiments and runs.";
    ExperimentWrite, "experiment.write", Project, [Full], Member, "Start, record and delete runs.";
    PromptRead, "prompt.read", Project, [Full, Read], Viewer, "Read prompts and skills.";
    PromptWrite, "prompt.write", Project, [Full], Member, "Create versions of prompts and skills, move labels and delete versions, except protected labels and the versions that have one.";
    PromptRelease, "prompt.release", Organization, [Organization], Admin, "Choose the protected labels of a project, which its key pairs cannot move or delete.";
    EvaluatorRead, "evaluator.read", Project, [Full, Read], Viewer, "Read evaluators, rules, executions and explanations.";
    EvaluatorWrite, "evaluator.write", Project, [Full], Member, "Create, change and delete evaluators and rules, requeue executions.";
    PluginRead, "plugin.read", Project, [Full, Read], Viewer, "Read plug-ins and their components.";
    PluginWrite, "plugin.write", Project, [Full], Member, "Register, roll back and delete plug-ins.";
    ConnectionRead, "connection.read", Project, [Full, Read], Viewer, "Read connections to model providers, never their secrets.";
    ConnectionWrite, "connection.write", Project, [Full], Admin, "Create, replace and delete connections to model providers.";
    ModelRead, "model.read", Project, [Full, Read], Viewer, "Read models and prices.";
    ModelWrite, "model.write", Project, [Full], Admin, "Create, replace and delete models of the project.";
    DashboardRead, "dashboard.read", Project, [Full, Read], Viewer, "Read dashboards and widgets.";
    DashboardWrite, "dashboard.write", Project, [Full], Member, "Create, change and delete dashboards and widgets.";
    AuditRead, "audit.read", Project, [Full], Admin, "Read and export the audit trail of the project.";
    ProjectRead, "project.read", Project, [Full, Read, Ingest], Viewer, "Read the name of the key's project and of its organization.";
    ProjectUpdate, "project.update", Organization, [Organization], Admin, "Change a project of the organization.";
    ProjectDelete, "project.delete", Organization, [Organization], Owner, "Delete a project of the organization.";
    ExportWrite, "export.write", Organization, [Organization], Admin, "Read, create and delete exports of projects to buckets.";
    KeyRead, "key.read", Organization, [Full, Organization], Member, "List keys of a project, never their secrets. A key pair of a project lists those of its own project.";
    KeyWrite, "key.write", Organization, [Organization], Admin, "Create, change, rotate and revoke key pairs of a project.";
    MemberRead, "member.read", Organization, [Organization], Member, "Read the roles of members in a project.";
    MemberWrite, "member.write", Organization, [Organization], Admin, "Assign and remove roles of members in a project.";
    SelfRead, "self.read", Account, [], None, "Read the own account and its sessions.";
    SelfWrite, "self.write", Account, [], None, "Change the own account and end its sessions.";
    OrgRead, "org.read", Organization, [Organization], None, "List the projects of the organization.";
    OrgProjectCreate, "org.project.create", Organization, [Organization], Admin, "Create projects.";
    OrgMemberRead, "org.member.read", Organization, [Organization], Member, "Read the members of the organization.";
    OrgMemberWrite, "org.member.write", Organization, [Organization], Admin, "Assign and remove roles of members in the organization.";
    OrgScim, "org.scim", Organization, [Organization], NoRole, "Provision users by SCIM.";
    OrgAuditRead, "org.audit.read", Organization, [Organization], Admin, "Read and export the audit trail of the organization and its projects.";
    OrgKeyRead, "org.key.read", Organization, [Organization], Admin, "List keys of the organization, never their secrets.";
}

impl Scope {
    /// All scopes, in the order of the reference page.
    pub const ALL: &'static [Self] =
        &[Self::Full, Self::Read, Self::Ingest, Self::PublicHalf, Self::Organization];

    /// Whether a key of this scope has the permission.
    #[must_use]
    pub fn holds(self, permission: Permission) -> bool {
        permission.scopes().contains(&self)
    }

    /// The name on the reference page.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Full => "key pair",
            Self::Read => "key pair for reading",
            Self::Ingest => "key pair for telemetry",
            Self::PublicHalf => "public key alone",
            Self::Organization => "key pair of an organization",
        }
    }
}

impl Role {
    /// From most to fewest rights.
    pub const ALL: &'static [Self] =
        &[Self::Owner, Self::Admin, Self::Member, Self::Viewer, Self::None];

    /// The name in the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Owner => "OWNER",
            Self::Admin => "ADMIN",
            Self::Member => "MEMBER",
            Self::Viewer => "VIEWER",
            Self::None => "NONE",
        }
    }

    /// Whether this role has at least the rights of `other`.
    #[must_use]
    pub const fn is_at_least(self, other: Self) -> bool {
        self as u8 <= other as u8
    }

    /// Whether a person with this role has the permission.
    #[must_use]
    pub fn holds(self, permission: Permission) -> bool {
        permission.lowest_role().is_some_and(|lowest| self.is_at_least(lowest))
    }

    /// The role in a project: its own role where one is set, else the role in the organization. An owner of the
    /// organization is owner of each project.
    #[must_use]
    pub const fn in_project(organization: Self, project: Option<Self>) -> Self {
        match (organization, project) {
            (Self::Owner, _) | (_, Option::None) => organization,
            (_, Some(project)) => project,
        }
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(raw: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|role| role.as_str() == raw);
        found.copied().ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|role| role.as_str()).collect();
            format!("must be one of {}; got {raw:?}", names.join(", "))
        })
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The permissions of a principal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PermissionSet(u128);

impl PermissionSet {
    fn of(holds: impl Fn(Permission) -> bool) -> Self {
        let held = Permission::ALL.iter().filter(|one| holds(**one));
        Self(held.fold(0, |set, one| set | one.bit()))
    }

    /// Whether the permission is in the set.
    #[must_use]
    pub const fn holds(self, permission: Permission) -> bool {
        self.0 & permission.bit() != 0
    }
}

impl From<Scope> for PermissionSet {
    fn from(scope: Scope) -> Self {
        Self::of(|one| scope.holds(one))
    }
}

impl From<Role> for PermissionSet {
    fn from(role: Role) -> Self {
        Self::of(|one| role.holds(one))
    }
}

impl Permission {
    const fn bit(self) -> u128 {
        1 << self as u32
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_each_permission_is_in_some_scope() {
        for (at, one) in Permission::ALL.iter().enumerate() {
            assert!(Permission::ALL[..at].iter().all(|other| other.name() != one.name()), "{one}");
            let is_of_key = Scope::ALL.iter().any(|scope| scope.holds(*one));
            assert!(is_of_key || one.level() == PermissionLevel::Account, "{one}");
        }
    }

    #[test]
    fn organization_keys_have_no_project_permission_and_project_keys_only_list_their_keys() {
        for one in Permission::ALL {
            let is_of_organization = one.level() == PermissionLevel::Organization;
            assert_eq!(Scope::Organization.holds(*one), is_of_organization, "{one}");
            let held_in_project = Scope::ALL.iter().any(|scope| {
                *scope != Scope::Organization && scope.holds(*one) && is_of_organization
            });
            assert_eq!(held_in_project, *one == Permission::KeyRead, "{one}");
        }
    }

    #[test]
    fn a_key_for_reading_reads_all_of_a_project_except_the_audit_trail_and_changes_nothing() {
        for one in Permission::ALL {
            let is_read_of_project =
                one.level() == PermissionLevel::Project && one.name().ends_with(".read");
            let is_held = is_read_of_project && *one != Permission::AuditRead;
            assert_eq!(Scope::Read.holds(*one), is_held, "{one}");
        }
    }

    #[test]
    fn a_set_holds_what_its_scope_or_role_holds() {
        for one in Permission::ALL {
            for scope in Scope::ALL {
                assert_eq!(PermissionSet::from(*scope).holds(*one), scope.holds(*one), "{one}");
            }
            for role in Role::ALL {
                assert_eq!(PermissionSet::from(*role).holds(*one), role.holds(*one), "{one}");
            }
        }
        assert!(Permission::ALL.len() <= 128);
    }

    #[test]
    fn a_higher_role_holds_everything_that_a_lower_one_holds() {
        for pair in Role::ALL.windows(2) {
            for one in Permission::ALL {
                assert!(!pair[1].holds(*one) || pair[0].holds(*one), "{one}");
            }
        }
        let held: Vec<_> = Permission::ALL.iter().filter(|one| Role::None.holds(**one)).collect();
        assert_eq!(held, [&Permission::SelfRead, &Permission::SelfWrite, &Permission::OrgRead]);
    }

    #[test]
    fn a_viewer_changes_nothing_and_no_role_provisions_users() {
        for one in Permission::ALL.iter().filter(|one| Role::Viewer.holds(**one)) {
            assert!(one.name().ends_with(".read") || *one == Permission::SelfWrite, "{one}");
        }
        assert!(!Role::Owner.holds(Permission::OrgScim));
    }

    #[test]
    fn a_role_of_a_project_replaces_that_of_the_organization_except_for_owners() {
        for role in Role::ALL {
            assert_eq!(Role::in_project(*role, None), *role);
            assert_eq!(Role::in_project(Role::Owner, Some(*role)), Role::Owner);
            assert_eq!(Role::in_project(Role::Member, Some(*role)), *role);
        }
    }

    #[test]
    fn a_key_for_telemetry_reads_only_the_name_of_its_project() {
        let held = Permission::ALL.iter().filter(|one| Scope::Ingest.holds(**one));
        let read: Vec<_> = held.filter(|one| one.name().ends_with(".read")).collect();
        assert_eq!(read, [&Permission::ProjectRead]);
    }

    #[test]
    fn a_public_key_alone_only_writes_scores() {
        let held: Vec<_> =
            Permission::ALL.iter().filter(|one| Scope::PublicHalf.holds(**one)).collect();
        assert_eq!(held, [&Permission::ScoreWrite]);
    }
}
