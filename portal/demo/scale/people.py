"""Users, projects, memberships and budgets."""

from dataclasses import dataclass, field
from datetime import timedelta

from portal.accounts.models import Membership, Project, Role, User
from portal.demo.scale.size import DAYS, ClusterSize, SeededRandom
from portal.quotas.models import Budget

ADMIN, LEAD, ALICE = "admin", "paul", "alice"
SLUGS = (
    *("vision", "speech", "llm", "bio", "robotics", "climate", "course", "search", "graphs"),
    *("video", "audio", "medical", "materials", "physics", "finance", "games", "maps", "safety"),
    *("agents", "retrieval", "vlm", "chemistry", "weather", "tooling"),
)
NAMES = (
    *("mira", "tomas", "wen", "noor", "ines", "ravi", "aiko", "otto", "pia", "leo", "sam", "eva"),
    *("max", "olga", "jun", "sara", "ivan", "lena", "omar", "yuki", "nils", "zoe", "karl", "ada"),
    *("emil", "rosa", "hugo", "ming", "anna", "luis", "vera", "theo", "nina", "amir", "kim", "ben"),
)
HOUR_UNITS = 56_000 * 3_600


@dataclass(slots=True)
class People:
    """Users and projects."""

    projects: list[Project] = field(default_factory=list)
    # Users who may submit, by the primary key of the project.
    members: dict[int, list[User]] = field(default_factory=dict)
    alice: User | None = None


def people_write(rng: SeededRandom, size: ClusterSize, password: str | None) -> People:
    """Write a platform admin, an admin of the first project, alice in it, and many more. Without a
    password, none of them can sign in with one."""
    users = [_user(name, rng, password) for name in (ADMIN, LEAD, ALICE)]
    users[0].is_superuser = users[0].is_staff = True
    users += [_user(_numbered(NAMES, i), rng, None) for i in range(max(0, size.users - 3))]
    User.objects.bulk_create(users, batch_size=500)
    projects = [_project(i, rng) for i in range(max(1, size.projects))]
    Project.objects.bulk_create(projects, batch_size=500)
    Project.objects.update(created_at=rng.now - timedelta(days=DAYS))
    people = People(projects, {project.pk: [] for project in projects}, users[2])
    rows = [_member(people, projects[0], users[1], Role.ADMIN)]
    rows.append(_member(people, projects[0], users[2], Role.MEMBER))
    for nth, user in enumerate(users[3:]):
        home = projects[nth % len(projects)]
        first = nth < len(projects) and nth > 0
        rows.append(_member(people, home, user, Role.ADMIN if first else Role.MEMBER))
        second = rng.random.choice(projects)
        if second is not home and rng.happens(20):
            role = Role.VIEWER if rng.happens(30) else Role.MEMBER
            rows.append(_member(people, second, user, role))
    Membership.objects.bulk_create(rows, batch_size=500)
    Budget.objects.bulk_create(_budget(rng, p) for p in projects[::2])
    return people


def _numbered(words: tuple[str, ...], nth: int) -> str:
    turn, at = divmod(nth, len(words))
    return f"{words[at]}{turn + 1}" if turn else words[at]


def _user(name: str, rng: SeededRandom, password: str | None) -> User:
    user = User(username=name, email=f"{name}@tessera.invalid", date_joined=rng.now)
    if password:
        user.set_password(password)
    else:
        user.set_unusable_password()
    return user


def _project(nth: int, rng: SeededRandom) -> Project:
    slug = _numbered(SLUGS, nth)
    return Project(
        slug=slug,
        name=slug.capitalize(),
        weight=rng.random.choice((1, 1, 2, 4)),
        approval_units=64 * 56_000 if nth % 3 == 0 else None,
        approval_high=True,
        approval_seconds=7 * 86_400 if nth % 4 == 0 else None,
    )


def _member(people: People, project: Project, user: User, role: Role) -> Membership:
    if role is not Role.VIEWER:
        people.members[project.pk].append(user)
    return Membership(project=project, user=user, role=role)


def _budget(rng: SeededRandom, project: Project) -> Budget:
    limit = rng.random.randint(20, 400) * 1_000 * HOUR_UNITS
    start = rng.now - timedelta(days=60)
    return Budget(
        project=project,
        limit_unit_seconds=limit,
        starts_at=start,
        ends_at=start + timedelta(days=DAYS),
    )
