"""What the planning worker counted last."""

from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True
    dependencies = []

    operations = [
        migrations.CreateModel(
            name="PublishedCounts",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("published_at", models.DateTimeField()),
                ("document", models.TextField()),
            ],
            options={"verbose_name_plural": "published counts"},
        ),
        migrations.AddConstraint(
            model_name="publishedcounts",
            constraint=models.CheckConstraint(
                condition=models.Q(("id", 1)), name="published_counts_are_one"
            ),
        ),
    ]
