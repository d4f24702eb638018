noinst_LIBRARIES += daemon/app/api/libapi.a
daemon_app_api_libapi_a_SOURCES = \
  daemon/app/api/admin_queries.c daemon/app/api/admin_queries.h \
  daemon/app/api/admin_requests.c daemon/app/api/admin_requests.h \
  daemon/app/api/adopt_requests.c daemon/app/api/adopt_requests.h \
  daemon/app/api/adoption.c daemon/app/api/adoption.h \
  daemon/app/api/backup.c daemon/app/api/backup.h \
  daemon/app/api/ckpt_answers.c daemon/app/api/ckpt_answers.h \
  daemon/app/api/ckpt_requests.c daemon/app/api/ckpt_requests.h \
  daemon/app/api/pending_requests.c daemon/app/api/pending_requests.h
