from django.db import migrations


class Migration(migrations.Migration):
    """Allocations are models of portal.allocations now. Their tables stay as they are."""

    dependencies = [("jobs", "0010_field_names")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.DeleteModel("AllocationSample"),
                migrations.DeleteModel("Allocation"),
            ]
        )
    ]
