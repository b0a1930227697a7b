#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "base/error.h"
#include "protocol/secret_file.h"

namespace omniccl {
namespace {

// A file in a folder of its own, both gone at the end.
class SecretFile {
 public:
  explicit SecretFile(const std::string& contents, mode_t mode = 0600) {
    std::string pattern = ::testing::TempDir() + "omniccl_secret_XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    path_ = folder_ + "/secret";
    std::ofstream(path_) << contents;
    ::chmod(path_.c_str(), mode);
  }
  ~SecretFile() {
    ::unlink(path_.c_str());
    ::rmdir(folder_.c_str());
  }
  const std::string& path() const { return path_; }

 private:
  std::string folder_;
  std::string path_;
};

std::string refusal_of(const std::string& path) {
  try {
    read_secret_file(path);
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kPrecondition);
    EXPECT_NE(std::string(error.what()).find(path), std::string::npos) << error.what();
    return error.what();
  }
}

TEST(SecretFile, GivesAKeyThatDependsOnItsContentsAlone) {
  const SecretFile one("0123456789abcdef");
  const SecretFile same("0123456789abcdef\n");
  const SecretFile other("0123456789abcdeg");
  EXPECT_EQ(read_secret_file(one.path()), read_secret_file(same.path()));
  EXPECT_NE(read_secret_file(one.path()), read_secret_file(other.path()));
  EXPECT_NE(read_secret_file(one.path()), SecretKey{});
}

TEST(SecretFile, ThatOthersCanReadOrWriteIsRefused) {
  for (const mode_t mode : {0604, 0640, 0620, 0602, 0644, 0777}) {
    const SecretFile file("0123456789abcdef", mode);
    EXPECT_NE(refusal_of(file.path()).find("chmod 600"), std::string::npos) << mode;
  }
}

TEST(SecretFile, OfAnImpossibleLengthIsRefused) {
  EXPECT_NE(refusal_of(SecretFile("").path()), "");
  EXPECT_NE(refusal_of(SecretFile("0123456789abcde\n\n\n").path()), "");
  EXPECT_EQ(refusal_of(SecretFile(std::string(4096, 'a')).path()), "");
  EXPECT_NE(refusal_of(SecretFile(std::string(4097, 'a')).path()), "");
}

TEST(SecretFile, ThatIsNoFileIsRefused) {
  EXPECT_NE(refusal_of("/nonexistent/secret").find("cannot be opened"), std::string::npos);
  EXPECT_NE(refusal_of("/dev/null").find("not a regular file"), std::string::npos);
  EXPECT_NE(refusal_of("/").find("not a regular file"), std::string::npos);
}

// The text of a secret must not get into a message.
TEST(SecretFile, IsNeverShown) {
  const SecretFile file("hunter2");
  EXPECT_EQ(refusal_of(file.path()).find("hunter2"), std::string::npos);
}

}  // namespace
}  // namespace omniccl
