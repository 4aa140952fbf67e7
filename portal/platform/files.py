"""How much of jobs' files is stored, and for how long."""

from dataclasses import dataclass

from agents.configuration.declaration import setting
from agents.configuration.value_kinds import url
from portal.platform.readers import PLANNERS, WEB


@dataclass(frozen=True)
class FileSettings:
    stored_gib: int = setting(
        100,
        "How much code, outputs and checkpoints a project may store, unless an admin sets another "
        "limit for it.",
        readers=PLANNERS,
    )
    files_kept_days: int = setting(
        30,
        "Outputs and checkpoints are removed this many days after their job ended, and code after "
        "the last job that used it, unless an admin sets another time for the project. 0: never.",
        readers=PLANNERS,
    )
    direct_transfer: bool = setting(
        False,
        "Nodes send large outputs and checkpoints directly to the bucket `TESSERA_S3_BUCKET`, and "
        "fetch large files of code and checkpoints there, by URLs that the portal signs for five "
        "minutes. A node that cannot reach the bucket goes on through the portal.",
        readers=(WEB,),
    )
    s3_node_endpoint: str = setting(
        "",
        "The URL by which nodes reach the store, if it differs. Empty: `TESSERA_S3_ENDPOINT`.",
        kind=url("https", "http"),
        readers=(WEB,),
    )
