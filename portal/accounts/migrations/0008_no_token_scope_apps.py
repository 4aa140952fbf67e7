"""Tokens for apps are rows of their own (portal.apps): one of the scope "apps" opens nothing now."""

from django.db import migrations, models


def delete_tokens_of_the_scope(apps, editor):
    apps.get_model("accounts", "ApiToken").objects.using(editor.connection.alias).filter(
        scope="apps"
    ).delete()


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0007_token_scope_apps'),
    ]

    operations = [
        migrations.RunPython(delete_tokens_of_the_scope, migrations.RunPython.noop),
        migrations.AlterField(
            model_name='apitoken',
            name='scope',
            field=models.CharField(choices=[('read', 'read'), ('write', 'write'), ('admin', 'admin')], default='write', max_length=10),
        ),
    ]
