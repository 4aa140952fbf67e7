"""Jobs by the code tree that their request names: code is kept as long as they need it."""

import django.db.models.fields.json
import django.db.models.functions.text
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0024_any_end'),
    ]

    operations = [
        migrations.AddIndex(
            model_name='job',
            index=models.Index(django.db.models.functions.text.Replace(django.db.models.fields.json.KeyTextTransform('code', 'request'), models.Value('-'), models.Value(''), output_field=models.TextField()), condition=models.Q(('request__has_key', 'code')), name='job_code'),
        ),
    ]
