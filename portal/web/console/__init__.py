"""Pages for the admins of a project (approvals, members, limits) and of the platform.

Platform admins see the tabs of the console; project admins reach the pages of their projects. The
raw database rows are under /admin/ (django-unfold).
"""
