"""Pages of who runs something: a project (approvals, members, limits) or the whole platform.

Platform admins see the tabs of the console; project admins reach the pages of their projects. Rows
as they stand in the database are under /admin/ (django-unfold).
"""
