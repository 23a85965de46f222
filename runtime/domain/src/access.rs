//! Permissions of operations and keys. One table applies to the API, the OTLP paths, the pages, their documents and
//! their tests.

use std::fmt;

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
}

macro_rules! permissions {
    ($($variant:ident, $name:literal, $level:ident, [$($scope:ident),*], $covers:literal;)*) => {
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

            /// The level on which it applies.
            #[must_use]
            pub const fn level(self) -> PermissionLevel { match self { $(Self::$variant => PermissionLevel::$level,)* } }

            const fn scopes(self) -> &'static [Scope] { match self { $(Self::$variant => &[$(Scope::$scope),*],)* } }
        }
    };
}

permissions! {
    TraceRead, "trace.read", Project, [Full, Read], "Read traces, observations and sessions, in lists and one by one.";
    ContentRead, "content.read", Project, [Full, Read], "Read media.";
    MetricRead, "metric.read", Project, [Full, Read], "Query metrics.";
    IngestWrite, "ingest.write", Project, [Full, Ingest], "Send telemetry over OTLP or in batches, and upload media.";
    TraceMark, "trace.mark", Project, [Full], "Bookmark and tag traces.";
    TraceDelete, "trace.delete", Project, [Full], "Delete traces.";
    ScoreRead, "score.read", Project, [Full, Read], "Read scores.";
    ScoreWrite, "score.write", Project, [Full, Ingest, PublicHalf], "Write scores. A public key alone can change only scores that it created.";
    ScoreDelete, "score.delete", Project, [Full], "Delete scores.";
    ScoreConfigRead, "score-config.read", Project, [Full, Read], "Read score configs.";
    ScoreConfigWrite, "score-config.write", Project, [Full], "Create and change score configs.";
    QueueRead, "queue.read", Project, [Full, Read], "Read annotation queues.";
    QueueWork, "queue.work", Project, [Full], "Mark items of annotation queues as completed.";
    QueueWrite, "queue.write", Project, [Full], "Create annotation queues, add and delete items, assign members.";
    CommentRead, "comment.read", Project, [Full, Read], "Read comments.";
    CommentWrite, "comment.write", Project, [Full], "Write comments.";
    DatasetRead, "dataset.read", Project, [Full, Read], "Read datasets, their items and versions.";
    DatasetWrite, "dataset.write", Project, [Full], "Create, change, import and delete datasets and their items.";
    ExperimentRead, "experiment.read", Project, [Full, Read], "Read experiments and runs.";
    ExperimentWrite, "experiment.write", Project, [Full], "Start, record and delete runs.";
    PromptRead, "prompt.read", Project, [Full, Read], "Read prompts and skills.";
    PromptWrite, "prompt.write", Project, [Full], "Create versions of prompts and skills, move labels and delete versions, except protected labels and the versions that have one.";
    PromptRelease, "prompt.release", Organization, [Organization], "Choose the protected labels of a project, which its key pairs cannot move or delete.";
    EvaluatorRead, "evaluator.read", Project, [Full, Read], "Read evaluators, rules, executions and explanations.";
    EvaluatorWrite, "evaluator.write", Project, [Full], "Create, change and delete evaluators and rules, requeue executions.";
    PluginRead, "plugin.read", Project, [Full, Read], "Read plug-ins and their components.";
    PluginWrite, "plugin.write", Project, [Full], "Register, roll back and delete plug-ins.";
    ConnectionRead, "connection.read", Project, [Full, Read], "Read connections to model providers, never their secrets.";
    ConnectionWrite, "connection.write", Project, [Full], "Create, replace and delete connections to model providers.";
    ModelRead, "model.read", Project, [Full, Read], "Read models and prices.";
    ModelWrite, "model.write", Project, [Full], "Create, replace and delete models of the project.";
    DashboardRead, "dashboard.read", Project, [Full, Read], "Read dashboards and widgets.";
    DashboardWrite, "dashboard.write", Project, [Full], "Create, change and delete dashboards and widgets.";
    ProjectRead, "project.read", Project, [Full, Read, Ingest], "Read the name of the key's project and of its organization.";
    ProjectUpdate, "project.update", Organization, [Organization], "Change a project of the organization.";
    ProjectDelete, "project.delete", Organization, [Organization], "Delete a project of the organization.";
    ExportWrite, "export.write", Organization, [Organization], "Read, create and delete exports of projects to buckets.";
    KeyRead, "key.read", Organization, [Full, Organization], "List keys of a project, never their secrets. A key pair of a project lists those of its own project.";
    KeyWrite, "key.write", Organization, [Organization], "Create, change, rotate and revoke key pairs of a project.";
    MemberRead, "member.read", Organization, [Organization], "Read the roles of members in a project.";
    MemberWrite, "member.write", Organization, [Organization], "Assign and remove roles of members in a project.";
    OrgRead, "org.read", Organization, [Organization], "List the projects of the organization.";
    OrgProjectCreate, "org.project.create", Organization, [Organization], "Create projects.";
    OrgMemberRead, "org.member.read", Organization, [Organization], "Read the members of the organization.";
    OrgMemberWrite, "org.member.write", Organization, [Organization], "Assign and remove roles of members in the organization.";
    OrgScim, "org.scim", Organization, [Organization], "Provision users by SCIM.";
    OrgKeyRead, "org.key.read", Organization, [Organization], "List keys of the organization, never their secrets.";
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
            assert!(Scope::ALL.iter().any(|scope| scope.holds(*one)), "{one}");
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
    fn a_key_for_reading_holds_every_permission_to_read_in_a_project_and_no_other() {
        for one in Permission::ALL {
            let is_read_of_project =
                one.level() == PermissionLevel::Project && one.name().ends_with(".read");
            assert_eq!(Scope::Read.holds(*one), is_read_of_project, "{one}");
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
