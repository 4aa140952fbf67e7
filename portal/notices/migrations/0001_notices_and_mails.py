import django.core.validators
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('accounts', '0004_directory_id'),
        ('jobs', '0016_request_id'),
        ('webhooks', '0003_chat_formats'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='NoticeSettings',
            fields=[
                ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='notice_settings', serialize=False, to=settings.AUTH_USER_MODEL)),
                ('kinds', models.JSONField(blank=True, default=list)),
                ('wait_minutes', models.PositiveSmallIntegerField(default=10, validators=[django.core.validators.MaxValueValidator(1440)])),
                ('lead_minutes', models.PositiveSmallIntegerField(default=15, validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(1440)])),
            ],
        ),
        migrations.CreateModel(
            name='NoticeMail',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('is_test', models.BooleanField(default=False)),
                ('status', models.CharField(choices=[('waiting', 'waiting'), ('delivered', 'delivered'), ('failed', 'failed')], default='waiting', max_length=12)),
                ('tries', models.PositiveSmallIntegerField(default=0)),
                ('created_at', models.DateTimeField()),
                ('next_at', models.DateTimeField(blank=True, null=True)),
                ('sent_at', models.DateTimeField(blank=True, null=True)),
                ('problem', models.CharField(blank=True, default='', max_length=200)),
                ('recipient', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ('-id',),
            },
        ),
        migrations.CreateModel(
            name='Notice',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('kind', models.CharField(choices=[('failed', 'failed'), ('ending', 'ending'), ('started', 'started'), ('ended', 'ended'), ('budget', 'budget'), ('node', 'node')], max_length=12)),
                ('key', models.CharField(max_length=64)),
                ('data', models.JSONField(default=dict)),
                ('created_at', models.DateTimeField()),
                ('gathered_at', models.DateTimeField(blank=True, null=True)),
                ('endpoint', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='notices', to='webhooks.endpoint')),
                ('job', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='jobs.job')),
                ('recipient', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='notices', to=settings.AUTH_USER_MODEL)),
                ('mail', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='notices', to='notices.noticemail')),
            ],
            options={
                'ordering': ('id',),
            },
        ),
        migrations.AddIndex(
            model_name='noticemail',
            index=models.Index(fields=['status', 'next_at'], name='notice_mail_due'),
        ),
        migrations.AddIndex(
            model_name='noticemail',
            index=models.Index(fields=['recipient', '-created_at'], name='notice_mail_latest'),
        ),
        migrations.AddConstraint(
            model_name='noticemail',
            constraint=models.CheckConstraint(condition=models.Q(('status__in', ['waiting', 'delivered', 'failed'])), name='notice_mail_status'),
        ),
        migrations.AddIndex(
            model_name='notice',
            index=models.Index(condition=models.Q(('gathered_at__isnull', True)), fields=['created_at'], name='notice_waiting'),
        ),
        migrations.AddConstraint(
            model_name='notice',
            constraint=models.CheckConstraint(condition=models.Q(('kind__in', ['failed', 'ending', 'started', 'ended', 'budget', 'node'])), name='notice_kind'),
        ),
        migrations.AddConstraint(
            model_name='notice',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('endpoint__isnull', True), ('recipient__isnull', False)), models.Q(('endpoint__isnull', False), ('recipient__isnull', True)), _connector='OR'), name='notice_of_one'),
        ),
        migrations.AddConstraint(
            model_name='notice',
            constraint=models.UniqueConstraint(condition=models.Q(('recipient__isnull', False)), fields=('recipient', 'kind', 'key'), name='notice_once_for_a_person'),
        ),
        migrations.AddConstraint(
            model_name='notice',
            constraint=models.UniqueConstraint(condition=models.Q(('endpoint__isnull', False)), fields=('endpoint', 'kind', 'key'), name='notice_once_for_a_chat'),
        ),
    ]
