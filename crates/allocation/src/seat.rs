//! Who may what in a project, in one place. Whoever has no seat in it, and no platform role that may look, does not
//! learn that it exists: what is foreign and what is missing are the same answer.

use base::auth::{Principal, Scope};
use base::http::{Access, Answer, ApiError};
use base::tx::Target;
use model::id::{AllocationId, ProjectId, UserId};
use model::signal::Code;
use model::state::ProjectRole;
use sqlx::PgExecutor;

/// Routes for people in projects, and for platform roles that may look.
pub const SEES: Access = Access::Scopes(&[Scope::Project, Scope::Operator, Scope::Support, Scope::Auditor]);
pub const TENANT: Access = Access::Scopes(&[Scope::Project]);
pub const OPERATOR: Access = Access::Scopes(&[Scope::Operator]);

/// Platform roles that may look into any project. Finance sees prices, and nobody's things.
const LOOKS: [Scope; 3] = [Scope::Operator, Scope::Support, Scope::Auditor];

/// A caller's place in one project.
#[derive(Clone, Debug)]
pub struct Seat {
    user: UserId,
    pub role: Option<ProjectRole>,
    operator: bool,
    auditor: bool,
    /// What it was taken for: a refusal says so in the audit.
    about: Target,
}

impl Seat {
    /// In this project; 404 for whoever has no business there.
    pub async fn take(from: impl PgExecutor<'_>, principal: &Principal, project: ProjectId) -> Answer<Self> {
        let row: Option<(Option<String>,)> = sqlx::query_as(
            "select s.role from project p left join project_seat s on s.project_id = p.id and s.user_id = $2 where p.id = $1",
        )
        .bind(project.uuid())
        .bind(principal.user_id.uuid())
        .fetch_optional(from)
        .await?;
        let (role,) = row.ok_or(Code::NotFound)?;
        Self::judged(principal, project, role, project.into())
    }

    /// In the project of this allocation. It is looked at before anything of the allocation is read, so that the time of an
    /// answer does not tell what is foreign from what is missing.
    pub async fn take_for(from: impl PgExecutor<'_>, principal: &Principal, allocation: AllocationId) -> Answer<Self> {
        let row: Option<(uuid::Uuid, Option<String>)> = sqlx::query_as(
            "select a.project_id, s.role from allocation a
             left join project_seat s on s.project_id = a.project_id and s.user_id = $2 where a.id = $1",
        )
        .bind(allocation.uuid())
        .bind(principal.user_id.uuid())
        .fetch_optional(from)
        .await?;
        let (project, role) = row.ok_or(Code::NotFound)?;
        Self::judged(principal, project.into(), role, allocation.into())
    }

    fn judged(principal: &Principal, project: ProjectId, role: Option<String>, about: Target) -> Answer<Self> {
        let role = match role.filter(|_| principal.may(Scope::Project)) {
            Some(word) => principal.seat_in(project, word.parse().map_err(ApiError::internal)?),
            None => None,
        };
        if role.is_none() && !looks(principal) {
            return Err(Code::NotFound.into());
        }
        Ok(Self {
            user: principal.user_id,
            role,
            operator: principal.may(Scope::Operator),
            auditor: principal.may(Scope::Auditor),
            about,
        })
    }

    fn at_least(&self, wanted: ProjectRole) -> bool {
        self.role.is_some_and(|role| role as u8 >= wanted as u8)
    }

    /// Somebody in the project, with at least this role.
    pub fn needs(&self, wanted: ProjectRole) -> Answer<()> {
        if self.at_least(wanted) {
            return Ok(());
        }
        Err(self
            .refused()
            .message(format!("this needs the role {wanted} in the project")))
    }

    fn refused(&self) -> ApiError {
        ApiError::forbidden("route.call", self.about.clone())
    }

    /// Its owners; and whoever may read the audit of everything.
    pub fn may_audit(&self) -> Answer<()> {
        if self.operator || self.auditor {
            Ok(())
        } else {
            self.needs(ProjectRole::Owner)
        }
    }

    /// Like `may_change`; operators help, too.
    pub fn may_repair(&self, creator: UserId) -> Answer<()> {
        if self.operator {
            Ok(())
        } else {
            self.may_change(creator)
        }
    }

    /// Their own, as a member; anybody's, as an administrator of the project.
    pub fn may_change(&self, creator: UserId) -> Answer<()> {
        if self.at_least(ProjectRole::Admin) || (self.at_least(ProjectRole::Member) && creator == self.user) {
            return Ok(());
        }
        Err(self
            .refused()
            .message("this needs its creator, or an administrator of the project"))
    }

    /// Is this a verb for them? Nobody is shown what would be refused.
    pub fn may(&self, verb: &str, creator: UserId) -> bool {
        match verb {
            "force-release" | "retry" => self.operator,
            "release" | "repair" => self.may_repair(creator).is_ok(),
            "again" => self.needs(ProjectRole::Member).is_ok(),
            _ => self.may_change(creator).is_ok(),
        }
    }

    /// The same, or an operator, who has to say why.
    pub fn may_end(&self, creator: UserId, reason: Option<&str>) -> Answer<()> {
        let refused = match self.may_change(creator) {
            Ok(()) => return Ok(()),
            Err(refused) => refused,
        };
        match (self.operator, reason) {
            (true, Some(_)) => Ok(()),
            (true, None) => Err(ApiError::field("reason", "operators say why")),
            (false, _) => Err(refused),
        }
    }
}

/// The projects in which this caller has a seat, as far as their token lets them take it.
pub async fn seats(from: impl PgExecutor<'_>, principal: &Principal) -> sqlx::Result<Vec<ProjectId>> {
    if !principal.may(Scope::Project) {
        return Ok(Vec::new());
    }
    let ids: Vec<uuid::Uuid> = sqlx::query_scalar("select project_id from project_seat where user_id = $1")
        .bind(principal.user_id.uuid())
        .fetch_all(from)
        .await?;
    let open = |project: &ProjectId| principal.confined.is_none_or(|confined| confined.project == *project);
    Ok(ids.into_iter().map(ProjectId::from).filter(open).collect())
}

/// May this caller look into projects that they are not in?
pub fn looks(principal: &Principal) -> bool {
    LOOKS.iter().any(|scope| principal.may(*scope))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seat(user: UserId, role: Option<ProjectRole>, operator: bool) -> Seat {
        Seat {
            user,
            role,
            operator,
            auditor: false,
            about: ProjectId::new().into(),
        }
    }

    #[test]
    fn roles_may_what_the_table_says() {
        use ProjectRole::{Admin, Member, Owner, Viewer};
        let (me, other) = (UserId::new(), UserId::new());
        for (role, create, own, others) in [
            (None, false, false, false),
            (Some(Viewer), false, false, false),
            (Some(Member), true, true, false),
            (Some(Admin), true, true, true),
            (Some(Owner), true, true, true),
        ] {
            let seat = seat(me, role, false);
            assert_eq!(seat.needs(Member).is_ok(), create, "{role:?}");
            assert_eq!(seat.may_audit().is_ok(), role == Some(Owner), "{role:?}");
            assert_eq!(seat.may_end(me, None).is_ok(), own, "{role:?}");
            assert_eq!(seat.may_end(other, Some("why")).is_ok(), others, "{role:?}");
            for (verb, mine, theirs) in [
                ("stop", own, others),
                ("release", own, others),
                ("again", create, create),
            ] {
                assert_eq!(
                    (seat.may(verb, me), seat.may(verb, other)),
                    (mine, theirs),
                    "{role:?} {verb}"
                );
            }
            assert!(!seat.may("force-release", me) && !seat.may("retry", me));
        }
        let operator = seat(me, None, true);
        assert!(operator.needs(Member).is_err() && operator.may_change(me).is_err() && operator.may_audit().is_ok());
        assert!(operator.may_end(other, None).is_err() && operator.may_end(other, Some("why")).is_ok());
        let shown = ["release", "stop", "extend", "force-release", "retry"].map(|verb| operator.may(verb, other));
        assert_eq!(shown, [true, false, false, true, true]);
    }
}
